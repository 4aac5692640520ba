//! The extension of a certificate request with the provider ID of the machine (AT-40, AT-41).

use std::str::FromStr;

use x509_cert::der::Tag;
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};

use crate::csr::RequestedExtension;
use crate::der::{Element, only};

/// The longest provider ID, in bytes.
pub const MAX_PROVIDER_ID_BYTES: usize = 512;

/// The object identifier of the proposal's proof of concept, for as long as Kubernetes has none of its own.
const PROOF_OF_CONCEPT: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.11129.2.1.21");

/// The object identifiers of the extension: a list to read, of which the first one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderIdOids(Vec<ObjectIdentifier>);

/// An extension that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderIdError {
    /// The list of object identifiers is empty, or has something else.
    #[error("{0:?} is not an object identifier such as 1.3.6.1.4.1.11129.2.1.21")]
    Oid(String),
    /// The value is malformed, empty or too long.
    #[error(
        "the extension {0} must be a UTF8String of 1 to {MAX_PROVIDER_ID_BYTES} bytes, or an instance of GCE"
    )]
    Value(String),
    /// Two extensions, one for each of two known object identifiers.
    #[error("the request has the provider ID twice")]
    Twice,
}

impl Default for ProviderIdOids {
    fn default() -> Self {
        Self(vec![PROOF_OF_CONCEPT])
    }
}

impl ProviderIdOids {
    /// Reads a list of object identifiers.
    ///
    /// # Errors
    /// The list is empty, or has something else.
    pub fn parse<'a>(oids: impl IntoIterator<Item = &'a str>) -> Result<Self, ProviderIdError> {
        let parse =
            |text: &str| ObjectIdentifier::from_str(text).map_err(|_| ProviderIdError::Oid(text.to_owned()));
        let oids = oids.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if oids.is_empty() { Err(ProviderIdError::Oid(String::new())) } else { Ok(Self(oids)) }
    }

    /// The object identifier that is written.
    pub(crate) fn written(&self) -> ObjectIdentifier {
        self.0.first().copied().unwrap_or(PROOF_OF_CONCEPT)
    }

    /// Returns whether an extension is this one.
    pub fn contains(&self, oid: &str) -> bool {
        self.0.iter().any(|known| known.to_string() == oid)
    }

    /// Reads the provider ID from the extensions of a request; none if it has no such extension.
    ///
    /// # Errors
    /// See [`ProviderIdError`].
    pub fn read(&self, extensions: &[RequestedExtension]) -> Result<Option<String>, ProviderIdError> {
        let mut found = extensions.iter().filter(|extension| self.contains(&extension.oid));
        let Some(extension) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(ProviderIdError::Twice);
        }
        let wrong = || ProviderIdError::Value(extension.oid.clone());
        let id = provider_id(&extension.value).ok_or_else(wrong)?;
        let is_valid = (1..=MAX_PROVIDER_ID_BYTES).contains(&id.len()) && !id.chars().any(char::is_control);
        if is_valid { Ok(Some(id)) } else { Err(wrong()) }
    }
}

/// Reads the value of the extension.
fn provider_id(value: &[u8]) -> Option<String> {
    let value = only(value).ok()?;
    match value.tag() {
        Tag::Utf8String => text(&value),
        Tag::Sequence => instance(&value),
        _ => None,
    }
}

/// An instance of GCE: zone, id, name, and number and name of the project.
fn instance(value: &Element<'_>) -> Option<String> {
    let mut fields = value.children(Tag::Sequence).ok()?;
    let mut next = || fields.required().ok();
    let zone = text(&next()?)?;
    number(&next()?)?;
    let name = text(&next()?)?;
    number(&next()?)?;
    let project = text(&next()?)?;
    if fields.optional().ok()?.is_some() {
        return None;
    }
    let is_part = |part: &String| !part.is_empty() && !part.contains('/');
    [&zone, &name, &project].into_iter().all(is_part).then(|| format!("gce://{project}/{zone}/{name}"))
}

fn text(element: &Element<'_>) -> Option<String> {
    if !matches!(element.tag(), Tag::Utf8String | Tag::PrintableString) {
        return None;
    }
    String::from_utf8(element.contents().to_vec()).ok()
}

fn number(element: &Element<'_>) -> Option<()> {
    element.decode::<UintRef<'_>>().ok().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::{SEQUENCE, element, element_of};
    use crate::{Csr, KeyPair, Request};

    const OID: &str = "1.3.6.1.4.1.11129.2.1.21";

    fn extension(oid: &str, value: Vec<u8>) -> RequestedExtension {
        RequestedExtension { oid: oid.to_owned(), is_critical: false, value }
    }

    #[test]
    fn a_request_has_the_provider_id_that_it_was_made_with_at_40_at_41() {
        let request = Request { provider_id: "p://é/1".into(), ..Request::default() };
        let text = request.to_pem(&KeyPair::generate().unwrap()).unwrap();
        let csr = Csr::from_pem(text.as_bytes()).unwrap();
        let [written] = csr.extensions() else { panic!("{:?}", csr.extensions()) };
        assert_eq!((&*written.oid, written.is_critical), (OID, false));
        assert_eq!(ProviderIdOids::default().read(csr.extensions()), Ok(Some("p://é/1".to_owned())));
        let other = ProviderIdOids::parse(["1.2.3", OID]).unwrap();
        assert_eq!(other.read(csr.extensions()), Ok(Some("p://é/1".to_owned())));
        assert_eq!(ProviderIdOids::parse(["1.2.3"]).unwrap().read(csr.extensions()), Ok(None));
        assert!(ProviderIdOids::parse([]).is_err() && ProviderIdOids::parse(["x"]).is_err());
    }

    #[test]
    fn an_instance_of_gce_is_read_at_41() {
        let utf8 = |text: &str| element(0x0c, text.as_bytes());
        let number = |bytes: &[u8]| element(0x02, bytes);
        let id = number(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        let instance = |name: &str| {
            element_of(SEQUENCE, &[&utf8("zone-1"), &id, &utf8(name), &number(&[7]), &utf8("project")])
        };
        let oids = ProviderIdOids::default();
        let read = |value| oids.read(&[extension(OID, value)]);
        assert_eq!(read(instance("node")), Ok(Some("gce://project/zone-1/node".to_owned())));
        assert!(read(instance("a/b")).is_err());
        assert!(read(instance("")).is_err());
    }

    #[test]
    fn other_values_are_refused_at_41() {
        let utf8 = |text: &[u8]| element(0x0c, text);
        let oids = ProviderIdOids::parse([OID, "1.2.3"]).unwrap();
        for value in [
            utf8(b""),
            utf8(&[b'a'; MAX_PROVIDER_ID_BYTES + 1]),
            utf8(&[0xff]),
            utf8(b"a\0"),
            element(0x04, b"a"),
            [utf8(b"a"), utf8(b"b")].concat(),
            vec![],
            element(SEQUENCE, &utf8(b"a")),
        ] {
            assert!(oids.read(&[extension(OID, value.clone())]).is_err(), "{value:?}");
        }
        let twice = [extension(OID, utf8(b"a")), extension("1.2.3", utf8(b"a"))];
        assert_eq!(oids.read(&twice), Err(ProviderIdError::Twice));
        assert_eq!(oids.read(&[extension("2.5.29.15", vec![])]), Ok(None));
    }
}
