//! Walking DER element by element, in the order in which it was written. Nothing is sorted, nothing re-encoded.

use x509_cert::der::asn1::AnyRef;
use x509_cert::der::{Decode, Error, Reader, SliceReader, Tag, Tagged};

/// An element together with the bytes that it was read from, header included.
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

    /// The element as another type.
    pub(crate) fn decode<T: Decode<'a>>(&self) -> Result<T, T::Error> {
        T::from_der(self.raw)
    }

    /// The elements inside, when this one has the given tag.
    pub(crate) fn children(&self, tag: Tag) -> Result<Elements<'a>, Error> {
        self.tag().assert_eq(tag)?;
        Elements::of(self.contents())
    }
}

/// Elements one after the other.
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

/// The one element that the bytes are. Bytes after it are an error.
pub(crate) fn only(bytes: &[u8]) -> Result<Element<'_>, Error> {
    Ok(Element { raw: bytes, any: AnyRef::from_der(bytes)? })
}
