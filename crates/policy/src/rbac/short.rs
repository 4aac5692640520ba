//! Short byte strings, stored inline up to a fixed size and on the heap otherwise.

use std::fmt;
use std::ops::Deref;

/// Immutable bytes; up to `N` (at most 255) are stored inline.
#[derive(Clone)]
pub(super) struct ShortBytes<const N: usize>(Form<N>);

#[derive(Clone)]
enum Form<const N: usize> {
    Here { length: u8, bytes: [u8; N] },
    Elsewhere(Box<[u8]>),
}

impl<const N: usize> From<&[u8]> for ShortBytes<N> {
    fn from(from: &[u8]) -> Self {
        let mut bytes = [0; N];
        Self(match (u8::try_from(from.len()), bytes.get_mut(..from.len())) {
            (Ok(length), Some(place)) => {
                place.copy_from_slice(from);
                Form::Here { length, bytes }
            }
            _ => Form::Elsewhere(from.into()),
        })
    }
}

impl<const N: usize> Deref for ShortBytes<N> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::Here { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Form::Elsewhere(bytes) => bytes,
        }
    }
}

impl<const N: usize> fmt::Debug for ShortBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_bytes_are_those_put_in(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(&*ShortBytes::<8>::from(bytes.as_slice()), bytes.as_slice());
        }
    }
}
