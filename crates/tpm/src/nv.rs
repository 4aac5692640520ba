//! Reads the non-volatile memory, where the manufacturer puts certificates (AT-111).

use crate::command::{self, Authorization, Command};
use crate::error::TpmError;
use crate::operation::Operation;
use crate::wire::{Malformed, Reader, Writer};

const OWNER_READ: u32 = 1 << 17;
const AUTH_READ: u32 = 1 << 18;
const WRITTEN: u32 = 1 << 29;
/// What every TPM returns at once.
const CHUNK_BYTES: u16 = 512;
const HANDLES: u32 = 1;

/// The content of an index; nothing if there is no index, or nobody has written it.
pub(crate) fn read(operation: &Operation<'_>, index: u32) -> Result<Option<Vec<u8>>, TpmError> {
    let (attributes, size) = match operation.run(Command::new(command::NV_READ_PUBLIC).handle(index)) {
        Err(e) if e.is_absent_handle() => return Ok(None),
        Err(e) => return Err(e),
        Ok(done) => done.read(|reader| {
            let area = public(reader.sized()?)?;
            let _name = reader.sized()?;
            Ok(area)
        })?,
    };
    if attributes & WRITTEN == 0 {
        return Ok(None);
    }
    let reader = if attributes & AUTH_READ != 0 {
        index
    } else if attributes & OWNER_READ != 0 {
        command::OWNER
    } else {
        return Err(TpmError::Unsuitable("a certificate in its memory cannot be read without a policy"));
    };
    let mut content = Vec::with_capacity(usize::from(size));
    let mut offset: u16 = 0;
    while offset < size {
        let count = size.saturating_sub(offset).min(CHUNK_BYTES);
        let read = Command::new(command::NV_READ)
            .authorized(reader, Authorization::Password)
            .handle(index)
            .parameters(Writer::default().u16(count).u16(offset));
        content.extend(operation.run(read)?.read(|reader| {
            let chunk = reader.sized()?;
            if chunk.len() != usize::from(count) {
                return Err(Malformed("it does not have the number of bytes that was asked for"));
            }
            Ok(chunk.to_vec())
        })?);
        offset = offset.saturating_add(count);
    }
    Ok(Some(content))
}

/// The attributes and the size of an index.
fn public(area: &[u8]) -> Result<(u32, u16), Malformed> {
    let mut reader = Reader::new(area);
    let (_index, _name_algorithm) = (reader.u32()?, reader.u16()?);
    let attributes = reader.u32()?;
    let _policy = reader.sized()?;
    let size = reader.u16()?;
    reader.finish()?;
    Ok((attributes, size))
}

/// The indexes that exist from `first` to `last`, in ascending order; at most `limit`.
pub(crate) fn indexes(
    operation: &Operation<'_>,
    first: u32,
    last: u32,
    limit: u32,
) -> Result<Vec<u32>, TpmError> {
    let parameters = Writer::default().u32(HANDLES).u32(first).u32(limit);
    let mut indexes =
        operation.run(Command::new(command::GET_CAPABILITY).parameters(parameters))?.read(|reader| {
            let _has_more = reader.u8()?;
            if reader.u32()? != HANDLES {
                return Err(Malformed("it is another capability"));
            }
            (0..reader.count(limit)?).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()
        })?;
    indexes.retain(|index| (first..=last).contains(index));
    indexes.sort_unstable();
    indexes.dedup();
    Ok(indexes)
}
