//! The parts of which protobuf messages are made.

/// The wire type of numbers.
const NUMBER: u8 = 0;
/// The wire type of numbers with eight bytes.
const EIGHT_BYTES: u8 = 1;
/// The wire type of text, bytes and messages.
pub(super) const BYTES: u8 = 2;

/// Writes a message.
pub(crate) fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(out, number, &inner);
}

/// Writes text or bytes.
pub(crate) fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    tag(out, number, BYTES);
    varint(out, value.len() as u64);
    out.extend(value);
}

/// Writes an integer.
pub(crate) fn integer(out: &mut Vec<u8>, number: u32, value: i64) {
    tag(out, number, NUMBER);
    // Negative numbers have ten bytes, also those of 32 bits.
    varint(out, value.cast_unsigned());
}

/// Writes a floating-point number.
pub(crate) fn double(out: &mut Vec<u8>, number: u32, value: f64) {
    tag(out, number, EIGHT_BYTES);
    out.extend(value.to_le_bytes());
}

pub(super) fn tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    varint(out, u64::from(number) << 3 | u64::from(wire));
}

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
