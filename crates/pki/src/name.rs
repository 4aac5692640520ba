//! Distinguished names, read in the order in which they were written.

use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Error, Tag};

use crate::der::Elements;

pub(crate) const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
pub(crate) const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
pub(crate) const ORGANIZATIONAL_UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");
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
}

/// An attribute of a subject that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The name is not well formed.
    #[error("the subject is not a distinguished name")]
    Der(#[from] Error),
    /// An attribute that matters is not text.
    #[error("the subject's {0} is not a string")]
    NotText(&'static str),
    /// More than one user id, or an empty one (AN-44).
    #[error("the subject's user id must be one string that is not empty")]
    UserId,
}

impl Subject {
    /// Reads what stands inside the outermost SEQUENCE of a name.
    pub(crate) fn read(contents: &[u8]) -> Result<Self, SubjectError> {
        let mut attributes = Vec::new();
        let mut names = Elements::of(contents)?;
        while let Some(set) = names.optional()? {
            let mut members = set.children(Tag::Set)?;
            while let Some(member) = members.optional()? {
                let mut pair = member.children(Tag::Sequence)?;
                let oid = pair.required()?.decode::<ObjectIdentifier>()?;
                let value = pair.required()?;
                if pair.optional()?.is_some() {
                    return Err(SubjectError::Der(Error::from(x509_cert::der::ErrorKind::Failed)));
                }
                attributes.push(Attribute { oid, value: text(value.tag(), value.contents()) });
            }
        }
        Ok(Self { attributes })
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

    /// The common name; of several the last one counts (CS-53). Empty when there is none.
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

    /// The user id (AN-44): empty when there is none.
    ///
    /// # Errors
    /// One that is not text, is empty, or more than one.
    pub fn user_id(&self) -> Result<&str, SubjectError> {
        let mut ids = self.values(USER_ID, "user id");
        match (ids.next().transpose()?, ids.next()) {
            (None, _) => Ok(""),
            (Some(id), None) if !id.is_empty() => Ok(id),
            _ => Err(SubjectError::UserId),
        }
    }
}

/// The text of a string type; nothing for any other type, or for bytes that the type does not allow.
fn text(tag: Tag, bytes: &[u8]) -> Option<String> {
    match tag {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            bytes.is_ascii().then(|| bytes.iter().map(|b| char::from(*b)).collect())
        }
        // Latin-1 is what T.61 is taken for everywhere.
        Tag::TeletexString => Some(bytes.iter().map(|b| char::from(*b)).collect()),
        Tag::BmpString => {
            let (units, rest) = bytes.as_chunks::<2>();
            if !rest.is_empty() {
                return None;
            }
            char::decode_utf16(units.iter().map(|u| u16::from_be_bytes(*u))).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}
