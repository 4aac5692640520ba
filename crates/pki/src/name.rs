//! Distinguished names. Reading keeps the order of the attributes.

use std::borrow::Cow;

use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Error, Tag};

use crate::der::{self, Element, Elements};

pub(crate) const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
pub(crate) const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The user id of a client certificate (AN-44).
pub(crate) const USER_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");

/// One attribute of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    oid: ObjectIdentifier,
    value: Option<String>,
}

/// A subject name: its attributes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    attributes: Vec<Attribute>,
    /// Whether a text was invalid and has replacement characters.
    is_lossy: bool,
    /// The number of attributes that are ignored because their values are not text.
    ignored: usize,
}

/// An attribute of a subject that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// Malformed DER.
    #[error("the subject is not a distinguished name")]
    Der(#[from] Error),
    /// A required attribute is not a string.
    #[error("the subject's {0} is not a string")]
    NotText(&'static str),
    /// A string with characters that its type does not allow.
    #[error("the subject has a string that is not valid for its type")]
    Text,
    /// More than one user id, or an empty one (AN-44).
    #[error("the subject's user id must be one string that is not empty")]
    UserId,
}

impl Subject {
    /// Reads the contents of the outermost SEQUENCE of a name.
    pub(crate) fn read(contents: &[u8]) -> Result<Self, SubjectError> {
        let mut subject = Self::default();
        for_each_attribute(contents, |oid, value, has_more| {
            if has_more {
                return Err(SubjectError::Der(Error::from(x509_cert::der::ErrorKind::Failed)));
            }
            subject.attributes.push(Attribute { oid, value: text(value.tag(), value.contents()) });
            Ok(())
        })?;
        Ok(subject)
    }

    fn values(
        &self,
        oid: ObjectIdentifier,
        what: &'static str,
    ) -> impl Iterator<Item = Result<&str, SubjectError>> {
        self.attributes
            .iter()
            .filter(move |a| a.oid == oid)
            .map(move |a| a.value.as_deref().ok_or(SubjectError::NotText(what)))
    }

    /// The common name; the last one if there are several (CS-53). Empty if there is none.
    ///
    /// # Errors
    /// A common name that is not text.
    pub fn common_name(&self) -> Result<&str, SubjectError> {
        self.values(COMMON_NAME, "common name").try_fold("", |_, next| next)
    }

    /// The organizations, in order (AN-42).
    ///
    /// # Errors
    /// An organization that is not text.
    pub fn organizations(&self) -> Result<Vec<&str>, SubjectError> {
        self.values(ORGANIZATION, "organization").collect()
    }

    /// The number of attributes that are neither the last common name nor an organization, ignored ones included.
    pub fn other_attributes(&self) -> usize {
        let count = |oid| self.attributes.iter().filter(|attribute| attribute.oid == oid).count();
        let expected = count(ORGANIZATION).saturating_add(count(COMMON_NAME).min(1));
        self.attributes.len().saturating_add(self.ignored).saturating_sub(expected)
    }

    /// The user id (AN-44). Empty if there is none.
    ///
    /// # Errors
    /// It is not text, is empty, or there is more than one.
    pub fn user_id(&self) -> Result<&str, SubjectError> {
        let mut ids = self.values(USER_ID, "user id");
        match (ids.next().transpose()?, ids.next()) {
            (None, _) => Ok(""),
            (Some(id), None) if !id.is_empty() => Ok(id),
            _ => Err(SubjectError::UserId),
        }
    }
}

/// The standard attributes that an issued certificate copies, in its order (CS-69). All values of one of the first seven
/// share a relative distinguished name; of the last two the last value counts.
static ISSUED: [(ObjectIdentifier, Keep); 9] = [
    (ObjectIdentifier::new_unwrap("2.5.4.6"), Keep::All),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), Keep::All),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), Keep::All),
    (ObjectIdentifier::new_unwrap("2.5.4.9"), Keep::All),
    (ObjectIdentifier::new_unwrap("2.5.4.17"), Keep::All),
    (ORGANIZATION, Keep::All),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), Keep::All),
    (COMMON_NAME, Keep::Last),
    (ObjectIdentifier::new_unwrap("2.5.4.5"), Keep::Last),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    Last,
}

const PRINTABLE_STRING: u8 = 0x13;
const UTF8_STRING: u8 = 0x0c;

impl Subject {
    /// Reads the name of a certificate request as Go does (CS-17): a string that is invalid for its type is an error; other
    /// values are ignored.
    pub(crate) fn of_request(contents: &[u8]) -> Result<Self, SubjectError> {
        let mut subject = Self::default();
        for_each_attribute(contents, |oid, value, _| {
            let text = match value.tag() {
                // The bytes of T.61 are taken as they are.
                Tag::TeletexString => {
                    let text = String::from_utf8_lossy(value.contents());
                    subject.is_lossy |= matches!(text, Cow::Owned(_));
                    text.into_owned()
                }
                tag if is_string(tag) => text(tag, value.contents()).ok_or(SubjectError::Text)?,
                _ => {
                    subject.ignored = subject.ignored.saturating_add(1);
                    return Ok(());
                }
            };
            subject.attributes.push(Attribute { oid, value: Some(text) });
            Ok(())
        })?;
        Ok(subject)
    }

    /// The name in an issued certificate: a DER SEQUENCE (CS-61, CS-69). `None` if a certificate cannot hold its text.
    pub(crate) fn issued(&self) -> Option<Vec<u8>> {
        if self.is_lossy {
            return None;
        }
        let mut parts = Vec::new();
        for (oid, keep) in ISSUED {
            let mut values: Vec<&str> =
                self.attributes.iter().filter(|a| a.oid == oid).filter_map(|a| a.value.as_deref()).collect();
            if keep == Keep::Last {
                values = values.pop().filter(|last| !last.is_empty()).into_iter().collect();
            }
            if !values.is_empty() {
                parts.push(relative(oid, &values));
            }
        }
        Some(der::element(der::SEQUENCE, &parts.concat()))
    }
}

/// Calls a function for each attribute of a name, with whether more follows its value.
fn for_each_attribute(
    contents: &[u8],
    mut tell: impl FnMut(ObjectIdentifier, &Element<'_>, bool) -> Result<(), SubjectError>,
) -> Result<(), SubjectError> {
    let mut names = Elements::of(contents)?;
    while let Some(set) = names.optional()? {
        let mut members = set.children(Tag::Set)?;
        while let Some(member) = members.optional()? {
            let mut pair = member.children(Tag::Sequence)?;
            let oid = pair.required()?.decode::<ObjectIdentifier>()?;
            let value = pair.required()?;
            tell(oid, &value, pair.optional()?.is_some())?;
        }
    }
    Ok(())
}

/// Encodes a name: the organizations, each in a relative distinguished name of its own to keep their order, the unit, and
/// the common name.
pub(crate) fn written(organizations: &[String], unit: Option<&str>, common_name: &str) -> Vec<u8> {
    let organizations = organizations.iter().map(|o| (ORGANIZATION, o.as_str()));
    let unit = unit.map(|unit| (ObjectIdentifier::new_unwrap("2.5.4.11"), unit));
    let all = organizations.chain(unit).chain([(COMMON_NAME, common_name)]);
    let parts: Vec<Vec<u8>> = all.map(|(oid, value)| relative(oid, &[value])).collect();
    der::element(der::SEQUENCE, &parts.concat())
}

/// A relative distinguished name: a SET of values of one type, in DER order.
fn relative(oid: ObjectIdentifier, values: &[&str]) -> Vec<u8> {
    let name = der::oid(oid);
    let mut members: Vec<Vec<u8>> = values
        .iter()
        .map(|value| {
            let tag = if value.bytes().all(is_printable) { PRINTABLE_STRING } else { UTF8_STRING };
            der::element_of(der::SEQUENCE, &[&name, &der::element(tag, value.as_bytes())])
        })
        .collect();
    members.sort();
    der::element(der::SET, &members.concat())
}

/// Whether a PrintableString may hold this character.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte)
}

fn is_string(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::BmpString
            | Tag::Ia5String
            | Tag::NumericString
            | Tag::PrintableString
            | Tag::TeletexString
            | Tag::Utf8String
    )
}

/// The text of a string type; `None` for other types and for bytes that the type does not allow.
fn text(tag: Tag, bytes: &[u8]) -> Option<String> {
    let ascii = |is_allowed: fn(u8) -> bool| {
        bytes.iter().all(|byte| is_allowed(*byte)).then(|| bytes.iter().map(|b| char::from(*b)).collect())
    };
    match tag {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        // `*` and `&` are not allowed, but common.
        Tag::PrintableString => ascii(|byte| is_printable(byte) || byte == b'*' || byte == b'&'),
        Tag::Ia5String => ascii(|byte| byte.is_ascii()),
        Tag::NumericString => ascii(|byte| byte.is_ascii_digit() || byte == b' '),
        // Everybody reads T.61 as Latin-1.
        Tag::TeletexString => Some(bytes.iter().map(|b| char::from(*b)).collect()),
        Tag::BmpString => {
            // A terminator may follow the text.
            let bytes = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes);
            let (units, rest) = bytes.as_chunks::<2>();
            if !rest.is_empty() {
                return None;
            }
            char::decode_utf16(units.iter().map(|u| u16::from_be_bytes(*u))).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}
