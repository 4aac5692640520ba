//! Tests quantities against plain numbers and against recordings.

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
    assert_eq!(Quantity::parse("0"), Ok(Quantity::default()), "unset equals zero");
    assert_eq!(serde_json::from_str::<Quantity>("null").unwrap(), Quantity::default());
    assert_eq!(serde_json::from_str::<Quantity>("1024").unwrap(), Quantity::parse("1Ki").unwrap());
    assert_eq!(serde_json::from_str::<Quantity>("\" 1Ki \"").unwrap(), Quantity::parse("1Ki").unwrap());
}

#[test]
fn what_is_no_quantity_is_refused_nr_113() {
    for text in ["", "1Zi", "1 Gi", "1..2", "1e", "1eGi", "--1", "0x10", "1e99999999999", "one", "1iK", "١"]
    {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
    for json in ["true", "\"\"", "{}", "[]", "\"x\""] {
        assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
    }
}

#[test]
fn quantities_are_printed_in_canonical_form_ap_112() {
    for (text, printed) in [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e9", "1e9"),
        ("1000m", "1"),
        ("2048Ki", "2Mi"),
        ("1024Ki", "1Mi"),
        ("4030032Ki", "4030032Ki"),
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("100000", "100k"),
        ("1e1", "10"),
        ("10e-1", "1"),
        ("1e-20", "1e-9"),
        ("1.1n", "2n"),
        ("-0.1n", "-1n"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("-2048", "-2048"),
        ("-2Mi", "-2Mi"),
        ("1.0001Ki", "1024102400u"),
        ("8Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("10000E", "10000E"),
    ] {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), printed, "{text}");
    }
    let json = |text: &str| Quantity::from_json(&serde_json::from_str(text).unwrap()).map(|q| q.to_string());
    assert_eq!(json("2").unwrap(), "2");
    assert_eq!(json("0.5").unwrap(), "500m");
    assert_eq!(json("null").unwrap(), "0");
    assert_eq!(json("\" 1Ki\"").unwrap(), "1Ki");
    assert!(json("true").is_err());
    assert!(json("[]").is_err());
}

#[test]
fn rounding_up_goes_away_from_zero() {
    let rounded = |text: &str, exponent| {
        let mut quantity = Quantity::parse(text).unwrap();
        quantity.round_up(exponent);
        quantity.to_string()
    };
    assert_eq!(rounded("1.0001", -3), "1001m");
    assert_eq!(rounded("-1.0001", -3), "-1001m");
    assert_eq!(rounded("999.9999", -3), "1k");
    assert_eq!(rounded("1n", 0), "1");
    assert_eq!(rounded("1e2000000000", 0), "100e1999999998");
    assert_eq!(Quantity::parse("1e2000000000").unwrap().scaled(0), i64::MAX);
    assert_eq!(Quantity::parse("-1e2000000000").unwrap().scaled(0), i64::MIN);
    assert_eq!(Quantity::parse("1.5").unwrap().scaled(0), 2);
    assert_eq!(Quantity::from_integer(i64::MIN).scaled(0), i64::MIN);
    assert!(Quantity::parse("1m").unwrap() > Quantity::parse("-1e9").unwrap());
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
            let value = billionths(negative, whole, thousandths, factor, divisor);
            // AP-112: quantities with a binary suffix are capped.
            let limit = i128::from(i64::MAX) * 1_000_000_000;
            let value = if suffix.ends_with('i') { value.clamp(-limit, limit) } else { value };
            (text, value)
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
        let order = Quantity::parse(&a).unwrap().cmp(&Quantity::parse(&b).unwrap());
        prop_assert_eq!(order, value_a.cmp(&value_b), "{} and {}", a, b);
    }

    #[test]
    fn a_quantity_equals_the_integer_that_it_means_nr_51((text, value) in any_quantity()) {
        prop_assert!(equal(&text, &format!("{value}n")), "{} is {}n", text, value);
    }

    #[test]
    fn the_printed_form_is_canonical_and_loses_nothing_ap_112((text, value) in any_quantity()) {
        let mut quantity = Quantity::parse(&text).unwrap();
        prop_assert_eq!(&Quantity::parse(&quantity.to_string()).unwrap(), &quantity);
        let milli = |value: i128| (value.abs() + 999_999) / 1_000_000 * value.signum();
        let expected = milli(value).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        prop_assert_eq!(i128::from(quantity.scaled(-3)), expected);
        quantity.round_up(-3);
        prop_assert!(equal(&quantity.to_string(), &format!("{}m", milli(value))), "{} is {}", text, quantity);
        prop_assert!(!quantity.to_string().contains('.') || text == quantity.to_string());
    }

    #[test]
    fn no_text_stops_the_reader(text in "[-+0-9.eEinumkKMGTP]{0,12}|.{0,8}") {
        let Ok(quantity) = Quantity::parse(&text) else { return Ok(()) };
        prop_assert_eq!(Quantity::parse(&quantity.to_string()), Ok(quantity.clone()), "what is printed reads the same");
        if !text.starts_with(['-', '+']) {
            prop_assert_eq!(Quantity::parse(&format!("0{text}")), Ok(quantity), "a leading zero is nothing");
        }
    }
}
