//! A P-256 key that was made outside of the TPM, which the TPM can hold and certify (AT-117, key class K1).

use std::fmt;

use crate::command::{self, Command};
use crate::error::TpmError;
use crate::operation::{Loaded, Operation};
use crate::template;
use crate::wire::{Malformed, Writer};

const FIELD_BYTES: usize = 32;
const UNCOMPRESSED: u8 = 4;

/// A P-256 key that was made outside of the TPM. Its numbers have the size of the field, so that leading zeros are kept
/// (AT-37).
#[derive(Clone)]
pub struct SoftwareKey {
    x: [u8; FIELD_BYTES],
    y: [u8; FIELD_BYTES],
    scalar: [u8; FIELD_BYTES],
}

impl SoftwareKey {
    /// A key with this uncompressed point (`04 ‖ x ‖ y`, 65 bytes) and this private number (at most 32 bytes,
    /// big-endian; it is padded on the left).
    ///
    /// # Errors
    /// A size is wrong. Whether the two belong together is for the TPM to check.
    pub fn new(point: &[u8], scalar: &[u8]) -> Result<Self, TpmError> {
        let bad = |why| TpmError::Argument { what: "software key", why: Malformed(why) };
        let wrong_point = || bad("the point is not 04, x and y with 32 bytes each");
        let (first, coordinates) = point.split_first().ok_or_else(wrong_point)?;
        let (x, y) = coordinates.split_first_chunk().ok_or_else(wrong_point)?;
        let y = <[u8; FIELD_BYTES]>::try_from(y).map_err(|_| wrong_point())?;
        if *first != UNCOMPRESSED {
            return Err(wrong_point());
        }
        let mut padded = [0; FIELD_BYTES];
        let start = FIELD_BYTES.checked_sub(scalar.len());
        let end = start.and_then(|start| padded.get_mut(start..));
        end.ok_or_else(|| bad("the private number has more than 32 bytes"))?.copy_from_slice(scalar);
        Ok(Self { x: *x, y, scalar: padded })
    }

    /// The public area with which the TPM loads the key, a `TPM2B_PUBLIC`.
    ///
    /// # Errors
    /// None in practice: the area has 90 bytes.
    pub fn public(&self) -> Result<Vec<u8>, TpmError> {
        let public = Writer::default().sized_structure(template::software_key(&self.x, &self.y)).finish();
        public.map_err(|why| TpmError::Argument { what: "software key", why })
    }

    /// Loads the key. An object with a private part from outside can only be in the null hierarchy.
    pub(crate) fn load<'o>(&self, operation: &'o Operation<'_>) -> Result<Loaded<'o>, TpmError> {
        let sensitive = Writer::default().u16(template::ECC).sized(&[]).sized(&[]).sized(&self.scalar);
        let parameters = Writer::default()
            .sized_structure(sensitive)
            .sized_structure(template::software_key(&self.x, &self.y))
            .u32(command::NULL_HANDLE);
        let load = Command::new(command::LOAD_EXTERNAL).parameters(parameters);
        let (loaded, ()) = operation.run(load)?.read_loaded(|name| name.sized().map(drop))?;
        Ok(loaded)
    }
}

impl fmt::Debug for SoftwareKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SoftwareKey")
    }
}
