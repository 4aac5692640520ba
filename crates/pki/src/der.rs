//! DER, element by element. Reading keeps the order and the bytes: nothing is sorted or encoded again.

use x509_cert::der::asn1::{AnyRef, ObjectIdentifier};
use x509_cert::der::{Decode, Error, Reader, SliceReader, Tag, Tagged};

/// An element, with the bytes that it was read from, header included.
pub(crate) struct Element<'a> {
    pub(crate) raw: &'a [u8],
    any: AnyRef<'a>,
}

impl<'a> Element<'a> {
    pub(crate) fn tag(&self) -> Tag {
        self.any.tag()
    }

    pub(crate) fn contents(&self) -> &'a [u8] {
        self.any.value()
    }

    /// The element decoded as another type.
    pub(crate) fn decode<T: Decode<'a>>(&self) -> Result<T, T::Error> {
        T::from_der(self.raw)
    }

    /// The elements inside, when this one has the given tag.
    pub(crate) fn children(&self, tag: Tag) -> Result<Elements<'a>, Error> {
        self.tag().assert_eq(tag)?;
        Elements::of(self.contents())
    }
}

/// A sequence of elements.
pub(crate) struct Elements<'a> {
    reader: SliceReader<'a>,
}

impl<'a> Elements<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { reader: SliceReader::new(bytes)? })
    }

    /// The next element.
    pub(crate) fn required(&mut self) -> Result<Element<'a>, Error> {
        let raw = self.reader.tlv_bytes()?;
        Ok(Element { raw, any: AnyRef::from_der(raw)? })
    }

    /// The next element, if there is one.
    pub(crate) fn optional(&mut self) -> Result<Option<Element<'a>>, Error> {
        if self.reader.is_finished() { Ok(None) } else { self.required().map(Some) }
    }

    /// The tag of the next element.
    pub(crate) fn peek(&self) -> Option<Tag> {
        Tag::peek(&self.reader).ok()
    }
}

/// The single element in the bytes. Bytes after it are an error.
pub(crate) fn only(bytes: &[u8]) -> Result<Element<'_>, Error> {
    Ok(Element { raw: bytes, any: AnyRef::from_der(bytes)? })
}

/// Writes one element.
pub(crate) fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(contents.len() + 6);
    out.push(tag);
    match u8::try_from(contents.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = contents.len().to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let significant = bytes.get(zeros..).unwrap_or_default();
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(0x7f));
            out.extend_from_slice(significant);
        }
    }
    out.extend_from_slice(contents);
    out
}

/// Writes an element that consists of these parts.
pub(crate) fn element_of(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    element(tag, &parts.concat())
}

/// The tag of a SEQUENCE.
pub(crate) const SEQUENCE: u8 = 0x30;
/// The tag of a SET.
pub(crate) const SET: u8 = 0x31;
/// The tag of an OBJECT IDENTIFIER.
const OID: u8 = 0x06;

/// Writes an object identifier.
pub(crate) fn oid(oid: ObjectIdentifier) -> Vec<u8> {
    element(OID, oid.as_bytes())
}
