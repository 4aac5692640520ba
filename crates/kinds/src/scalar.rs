//! Values that JSON has as text and that mean more: bytes, quantities, times. Each is brought into the one form in
//! which Go prints it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::quantity::Quantity;
use crate::time::Instant;

/// Base64 as Go reads it: padded, the unused bits of the last character whatever they are.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Bytes as text.
pub(crate) fn base64(bytes: &[u8]) -> Value {
    BASE64.encode(bytes).into()
}

/// Checks base64, in which line ends are passed over, and writes it anew.
pub(crate) fn rebase64(text: &str) -> Result<Value, String> {
    let joined: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    let bytes = BASE64.decode(joined).map_err(|error| format!("illegal base64 data: {error}"))?;
    Ok(base64(&bytes))
}

/// A quantity in canonical form (AP-112).
pub(crate) fn quantity(text: &str) -> Result<Value, String> {
    Quantity::parse(text.trim())
        .map(|quantity| quantity.to_string().into())
        .map_err(|error| error.to_string())
}

/// A time in whole seconds, UTC; `null` for the zero time.
pub(crate) fn time(text: &str) -> Result<Value, String> {
    Instant::parse(text).map(of_time).map_err(|error| error.to_string())
}

/// A time with six digits after the second, UTC (AP-130); `null` for the zero time.
pub(crate) fn micro_time(text: &str) -> Result<Value, String> {
    Instant::parse_micro(text).map(of_micro_time).map_err(|error| error.to_string())
}

/// The JSON of a `Time`.
pub(crate) fn of_time(time: Instant) -> Value {
    if time == Instant::ZERO { Value::Null } else { time.to_string().into() }
}

/// The JSON of a `MicroTime`.
pub(crate) fn of_micro_time(time: Instant) -> Value {
    if time == Instant::ZERO { Value::Null } else { time.to_micro().into() }
}
