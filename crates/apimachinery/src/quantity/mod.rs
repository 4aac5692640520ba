//! Resource quantities such as `1Gi`: exact, compared by value (NR-51), printed as the API server prints them (AP-112).

mod arithmetic;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;
use serde_json::value::RawValue;

/// The power of ten of the smallest quantity. Finer values are rounded up to it, away from zero.
const NANO: i64 = -9;
/// The power of ten of the largest decimal suffix, `E`.
const EXA: i64 = 18;
/// The number of decimal digits that always fit into 64 bits.
const SHORT: usize = 18;

/// A quantity: exact, of any size, normalized. The default, and the value of `null`, is zero.
///
/// Quantities are equal if their values are equal. The original notation only matters when they are printed.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The original text, if the API server prints it instead of the canonical form.
    written: Option<Box<str>>,
}

/// A normalized decimal number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Amount {
    is_negative: bool,
    /// Decimal digits, least significant first, without zeros at either end. Empty for zero.
    digits: Vec<u8>,
    /// The power of ten of the least significant digit. Zero for zero.
    exponent: i64,
}

/// The suffix family for printing a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    Binary,
    #[default]
    Decimal,
    Exponent,
}

/// An error: the text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a quantity: write a number, then nothing, one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, or e and an \
     exponent"
)]
pub struct QuantityError(String);

impl Quantity {
    /// Parses a quantity: an optional sign, digits with an optional decimal point, and an optional suffix (AP-112).
    /// Values finer than a billionth are rounded up, and values with a binary suffix are capped at 2^63-1.
    ///
    /// DIVERGES: an exponent that does not fit into 32 bits is refused. Kubernetes drops its upper bits.
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::read(text).ok_or_else(|| QuantityError(text.to_owned()))
    }

    /// Reads a quantity from JSON: a string, a bare number by its digits, or `null`, which is zero.
    ///
    /// # Errors
    /// The value has another type, or is not a quantity.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            other => Err(QuantityError(other.to_string())),
        }
    }

    /// A whole number.
    pub fn from_integer(value: i64) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().rev().map(|digit| digit - b'0').collect();
        let amount = Amount { is_negative: value < 0, digits, exponent: 0 }.normal();
        Self { amount, ..Self::default() }
    }

    fn read(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = split_digits(rest)?;
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest)?,
            None => ("", rest),
        };
        let suffix = Suffix::read(suffix)?;
        // Such a text is read as zero, unless the API server needs more than 64 bits to parse it.
        if whole.is_empty() && fraction.is_empty() && suffix.tens < NANO {
            return None;
        }
        let mut digits: Vec<u8> =
            whole.bytes().chain(fraction.bytes()).rev().map(|digit| digit - b'0').collect();
        for _ in 0..suffix.kibis {
            multiply_by_1024(&mut digits);
        }
        let exponent = suffix.tens - i64::try_from(fraction.len()).ok()?;
        let mut amount = Amount { is_negative, digits, exponent }.normal();
        amount.round_up(NANO);
        if suffix.format == Format::Binary {
            amount.cap();
        }
        let written = suffix.is_printed_as_written(whole, fraction).then(|| text.into());
        Some(Self { amount, format: suffix.format, written })
    }

    /// Returns whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.amount.digits.is_empty()
    }

    /// Returns whether it is less than zero.
    pub fn is_negative(&self) -> bool {
        self.amount.is_negative
    }

    /// Returns whether it is a whole number.
    pub fn is_integer(&self) -> bool {
        self.amount.exponent >= 0
    }

    /// Rounds up, away from zero, to a multiple of this power of ten: 0 for whole numbers, -3 for thousandths.
    pub fn round_up(&mut self, exponent: i64) {
        if self.amount.exponent < exponent {
            self.amount.round_up(exponent);
            self.written = None;
        }
    }

    /// The value in multiples of this power of ten, rounded up, away from zero. Saturates if the result does not fit.
    pub fn scaled(&self, exponent: i64) -> i64 {
        let mut amount = self.amount.clone();
        amount.round_up(exponent);
        match amount.integer(exponent) {
            Some(value) if amount.is_negative => 0_i64.checked_sub_unsigned(value).unwrap_or(i64::MIN),
            Some(value) => i64::try_from(value).unwrap_or(i64::MAX),
            None if amount.is_negative => i64::MIN,
            None => i64::MAX,
        }
    }
}

impl Amount {
    fn normal(mut self) -> Self {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            return Self::default();
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.exponent = self.exponent.saturating_add_unsigned(zeros as u64);
        self
    }

    /// The power of ten above the most significant digit; very small for zero.
    fn magnitude(&self) -> i64 {
        match self.digits.len() {
            0 => i64::MIN,
            length => self.exponent.saturating_add_unsigned(length as u64),
        }
    }

    /// Rounds away from zero to a multiple of this power of ten.
    fn round_up(&mut self, exponent: i64) {
        if self.digits.is_empty() || self.exponent >= exponent {
            return;
        }
        let dropped = usize::try_from(exponent.saturating_sub(self.exponent)).unwrap_or(usize::MAX);
        self.digits.drain(..dropped.min(self.digits.len()));
        self.exponent = exponent;
        // Digits were dropped, because the least significant digit is never zero.
        let mut carried = false;
        for digit in &mut self.digits {
            if *digit < 9 {
                *digit += 1;
                carried = true;
                break;
            }
            *digit = 0;
        }
        if !carried {
            self.digits.push(1);
        }
        *self = std::mem::take(self).normal();
    }

    /// Caps the absolute value at 2^63-1.
    fn cap(&mut self) {
        let limit = Self { is_negative: self.is_negative, ..Quantity::from_integer(i64::MAX).amount };
        if self.compare_sizes(&limit) == Ordering::Greater {
            *self = limit;
        }
    }

    /// The absolute value in multiples of a power of ten, if it is a whole number of them and fits.
    fn integer(&self, exponent: i64) -> Option<u64> {
        let zeros = match self.digits.is_empty() {
            true => 0,
            false => u32::try_from(self.exponent.checked_sub(exponent)?).ok()?,
        };
        let value = self
            .digits
            .iter()
            .rev()
            .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(*digit)))?;
        value.checked_mul(10_u64.checked_pow(zeros)?)
    }

    /// Compares the absolute values.
    fn compare_sizes(&self, other: &Self) -> Ordering {
        let sizes = self.magnitude().cmp(&other.magnitude());
        // Neither ends in zeros, so the longer one of two with a common prefix is larger.
        sizes.then_with(|| self.digits.iter().rev().cmp(other.digits.iter().rev()))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount.hash(state);
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.amount, &other.amount);
        match (a.is_negative, b.is_negative) {
            (false, false) => a.compare_sizes(b),
            (true, true) => b.compare_sizes(a),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Quantity {
    /// The canonical form (AP-112): no fraction, and the largest suffix of its family without loss of precision.
    ///
    /// DIVERGES: a multiple of `1000E` is printed with `E`. Kubernetes finds no suffix for it and prints a number
    /// that is too small.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.amount.is_negative {
            f.write_str("-")?;
        }
        if self.format == Format::Binary
            && let Some(value) = self.amount.integer(0).filter(|value| *value >= 1024)
        {
            return write_binary(f, value);
        }
        let exponent = self.amount.exponent;
        let mut shown = exponent - exponent.rem_euclid(3);
        if self.format != Format::Exponent {
            shown = shown.min(EXA);
        }
        for digit in self.amount.digits.iter().rev() {
            write!(f, "{digit}")?;
        }
        for _ in shown..exponent {
            f.write_str("0")?;
        }
        match (self.format, shown) {
            (_, 0) => Ok(()),
            (Format::Exponent, _) => write!(f, "e{shown}"),
            _ => f.write_str(decimal_suffix(shown)),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut value: u64) -> fmt::Result {
    let mut suffix = "";
    for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        suffix = larger;
    }
    write!(f, "{value}{suffix}")
}

fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        EXA => "E",
        _ => "",
    }
}

fn split_digits(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The factor of a suffix: powers of 1024 and of ten.
struct Suffix {
    format: Format,
    kibis: u8,
    tens: i64,
}

impl Suffix {
    fn read(suffix: &str) -> Option<Self> {
        let decimal = |tens| Some(Self { format: Format::Decimal, kibis: 0, tens });
        let binary = |kibis| Some(Self { format: Format::Binary, kibis, tens: 0 });
        match suffix {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(EXA),
            "Ki" => binary(1),
            "Mi" => binary(2),
            "Gi" => binary(3),
            "Ti" => binary(4),
            "Pi" => binary(5),
            "Ei" => binary(6),
            _ => {
                let tens = i64::from(suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?);
                Some(Self { format: Format::Exponent, kibis: 0, tens })
            }
        }
    }

    /// Returns whether the API server considers the text canonical without parsing it fully (AP-112), so that `1E3` and
    /// `+1.500` are printed as written.
    fn is_printed_as_written(&self, whole: &str, fraction: &str) -> bool {
        let whole = whole.trim_start_matches('0');
        match self.format {
            Format::Binary => {
                // The API server considers a number with this many digits and this suffix small.
                let short = 14_usize.saturating_sub(usize::from(self.kibis) * 3);
                let is_odd_enough = whole.parse::<u64>().is_ok_and(|value| value % 8 != 0);
                fraction.is_empty() && whole.len() <= short && is_odd_enough
            }
            Format::Decimal | Format::Exponent => {
                let Ok(places) = i64::try_from(fraction.len()) else { return false };
                let scale = self.tens - places;
                let ends_in_zeros = format!("{whole}{fraction}").ends_with("000");
                let is_short = whole.len() + fraction.len() <= SHORT;
                is_short && scale >= NANO && scale % 3 == 0 && !whole.is_empty() && !ends_in_zeros
            }
        }
    }
}

fn multiply_by_1024(digits: &mut Vec<u8>) {
    let mut carry = 0_u32;
    for digit in digits.iter_mut() {
        let value = u32::from(*digit) * 1024 + carry;
        *digit = (value % 10) as u8;
        carry = value / 10;
    }
    while carry > 0 {
        digits.push((carry % 10) as u8);
        carry /= 10;
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Accepts strings and, like Kubernetes, bare numbers by their digits.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Boxed, because a decoded value has no text to borrow.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let raw = raw.get();
        if raw == "null" {
            return Ok(Self::default());
        }
        let text: std::borrow::Cow<'_, str> = if raw.starts_with('"') {
            serde_json::from_str::<String>(raw).map_err(D::Error::custom)?.into()
        } else {
            raw.into()
        };
        Self::parse(text.trim()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
