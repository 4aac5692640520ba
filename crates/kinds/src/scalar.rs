//! Typed strings in JSON: bytes, quantities and times. Each is normalized to the form that Go prints.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use portcullis_apimachinery::quantity::Quantity;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

/// Base64 as Go reads it: padded, with any unused bits in the last character.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Bytes as text.
pub(crate) fn base64(bytes: &[u8]) -> Value {
    BASE64.encode(bytes).into()
}

/// Validates and normalizes base64, ignoring line breaks.
pub(crate) fn rebase64(text: &str) -> Result<Value, String> {
    let joined: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    let bytes = BASE64.decode(joined).map_err(|error| format!("illegal base64 data: {error}"))?;
    Ok(base64(&bytes))
}

/// Normalizes a quantity to its canonical form (AP-112).
pub(crate) fn quantity(text: &str) -> Result<Value, String> {
    Quantity::parse(text.trim())
        .map(|quantity| quantity.to_string().into())
        .map_err(|error| error.to_string())
}

/// Normalizes a time to whole seconds in UTC; `null` for the zero time.
pub(crate) fn time(text: &str) -> Result<Value, String> {
    Instant::parse(text).map(of_time).map_err(|error| error.to_string())
}

/// Normalizes a time to six fractional digits in UTC (AP-130); `null` for the zero time.
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
