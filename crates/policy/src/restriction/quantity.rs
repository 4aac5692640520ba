//! Resource quantities such as `1Gi`, compared by value (NR-51).

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

/// A quantity: exact, of any size, in one normal form. Its empty value, and what `null` decodes to, is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Quantity {
    is_negative: bool,
    /// Decimal digits, least significant first, without zeros at either end. Empty for zero.
    digits: Vec<u8>,
    /// The power of ten of the least significant digit. Zero for zero.
    exponent: i64,
}

impl Quantity {
    /// Reads a quantity: an optional sign, digits with an optional point, and an optional suffix.
    pub(super) fn parse(text: &str) -> Option<Self> {
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
        let (thousands, exponent) = scale(suffix)?;
        let mut digits: Vec<u8> =
            whole.bytes().chain(fraction.bytes()).rev().map(|digit| digit - b'0').collect();
        for _ in 0..thousands {
            multiply_by_1024(&mut digits);
        }
        let exponent = exponent - i64::try_from(fraction.len()).ok()?;
        Some(Self { is_negative, digits, exponent }.normal())
    }

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
}

fn split_digits(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// What a suffix multiplies by: 1024 so many times, and ten to the power of so much.
fn scale(suffix: &str) -> Option<(u8, i64)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (1, 0),
        "Mi" => (2, 0),
        "Gi" => (3, 0),
        "Ti" => (4, 0),
        "Pi" => (5, 0),
        "Ei" => (6, 0),
        _ => (0, i64::from(suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?)),
    })
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
    /// Takes text and, as Kubernetes does, bare numbers by their digits.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if raw == "null" {
            return Ok(Self::default());
        }
        let text: std::borrow::Cow<'_, str> = if raw.starts_with('"') {
            serde_json::from_str::<String>(raw).map_err(D::Error::custom)?.into()
        } else {
            raw.into()
        };
        Self::parse(text.trim()).ok_or_else(|| D::Error::custom(format_args!("{text:?} is not a quantity")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Quantity;

    fn equal(a: &str, b: &str) -> bool {
        Quantity::parse(a).unwrap() == Quantity::parse(b).unwrap()
    }

    #[test]
    fn quantities_are_equal_by_value_nr_51() {
        assert!(equal("1Gi", "1024Mi"));
        assert!(equal("1.5Gi", "1536Mi"));
        assert!(equal("0.5", "500m"));
        assert!(equal("1e3", "1k"));
        assert!(equal("1E3", "1000"));
        assert!(equal("1E", "1e18"));
        assert!(equal("-0", "0Gi"));
        assert!(equal("+1.", "001"));
        assert!(equal(".5", "0.50"));
        assert!(!equal("1G", "1Gi"));
        assert!(!equal("-1", "1"));
        assert_eq!(Quantity::parse("0"), Some(Quantity::default()), "unset equals zero");
        assert_eq!(serde_json::from_str::<Quantity>("null").unwrap(), Quantity::default());
        assert_eq!(serde_json::from_str::<Quantity>("1024").unwrap(), Quantity::parse("1Ki").unwrap());
        assert_eq!(serde_json::from_str::<Quantity>("\" 1Ki \"").unwrap(), Quantity::parse("1Ki").unwrap());
    }

    #[test]
    fn what_is_no_quantity_is_refused_nr_113() {
        for text in
            ["", "1Zi", "1 Gi", "1..2", "1e", "1eGi", "--1", "0x10", "1e99999999999", "one", "1iK", "١"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
        for json in ["true", "\"\"", "{}", "[]", "\"x\""] {
            assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
        }
    }

    /// The value in billionths, worked out with plain integers.
    fn billionths(negative: bool, whole: u32, thousandths: u32, factor: u128, divisor: u128) -> i128 {
        let value = (u128::from(whole) * 1_000 + u128::from(thousandths)) * factor * 1_000_000_000 / 1_000;
        let value = i128::try_from(value / divisor).unwrap();
        if negative { -value } else { value }
    }

    const SUFFIXES: [(&str, u128, u128); 17] = [
        ("", 1, 1),
        ("m", 1, 1_000),
        ("u", 1, 1_000_000),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("Pi", 1 << 50, 1),
        ("Ei", 1 << 60, 1),
        ("e3", 1_000, 1),
        ("E-3", 1, 1_000),
    ];

    fn any_quantity() -> impl Strategy<Value = (String, i128)> {
        let whole =
            prop_oneof![0_u32..5, Just(1024_u32), Just(1000), Just(1_048_576), Just(1_000_000), 0_u32..4096];
        let thousandths = prop_oneof![3 => Just(0_u32), 1 => Just(500), 1 => 0_u32..1000];
        (any::<bool>(), whole, thousandths, 0..SUFFIXES.len()).prop_map(
            |(negative, whole, thousandths, suffix)| {
                let (suffix, factor, divisor) = SUFFIXES[suffix];
                let sign = if negative { "-" } else { "" };
                let text = format!("{sign}{whole}.{thousandths:03}{suffix}");
                (text, billionths(negative, whole, thousandths, factor, divisor))
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn quantities_are_equal_exactly_when_plain_integers_say_so_nr_51(
            (a, value_a) in any_quantity(), (b, value_b) in any_quantity()
        ) {
            prop_assert_eq!(equal(&a, &b), value_a == value_b, "{} and {}", a, b);
        }

        #[test]
        fn a_quantity_equals_the_integer_that_it_means_nr_51((text, value) in any_quantity()) {
            prop_assert!(equal(&text, &format!("{value}n")), "{} is {}n", text, value);
        }

        #[test]
        fn no_text_stops_the_reader(text in "[-+0-9.eEinumkKMGTP]{0,12}|.{0,8}") {
            if let Some(quantity) = Quantity::parse(&text).filter(|_| !text.starts_with(['-', '+'])) {
                prop_assert_eq!(Quantity::parse(&format!("0{text}")), Some(quantity), "a leading zero is nothing");
            }
        }
    }
}
