//! The formats of texts that schemas can ask for. Formats that Kubernetes does not know mean nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use portcullis_apimachinery::duration;
use portcullis_apimachinery::names::{label_errors, subdomain_errors};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// 24 hexadecimal digits.
    BsonObjectId,
    /// Base64.
    Byte,
    /// A block of addresses.
    Cidr,
    /// The number of a credit card.
    CreditCard,
    /// A day.
    Date,
    /// A time.
    DateTime,
    /// A duration.
    Duration,
    /// An address of mail.
    Email,
    /// A color in hexadecimal digits.
    HexColor,
    /// The name of a host.
    Hostname,
    /// A number of 32 bits, for numbers.
    Int32,
    /// A number of 64 bits, for numbers.
    Int64,
    /// An address of IPv4.
    Ipv4,
    /// An address of IPv6.
    Ipv6,
    /// The number of a book, of 10 or 13 digits, or either.
    Isbn(Option<u8>),
    /// The address of a network interface.
    Mac,
    /// A name of Kubernetes: a DNS subdomain.
    LongName,
    /// Any text.
    Password,
    /// A color by its parts.
    RgbColor,
    /// A name of Kubernetes: a DNS label.
    ShortName,
    /// A social security number.
    Ssn,
    /// A URI, or an absolute path.
    Uri,
    /// A UUID, of any version or of one.
    Uuid(Option<char>),
}

impl Format {
    /// The format of a name; none for one without a meaning.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "creditcard" => Self::CreditCard,
            "date" => Self::Date,
            "date-time" | "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn(None),
            "isbn10" => Self::Isbn(Some(10)),
            "isbn13" => Self::Isbn(Some(13)),
            "mac" => Self::Mac,
            "k8s-long-name" => Self::LongName,
            "password" => Self::Password,
            "rgbcolor" => Self::RgbColor,
            "k8s-short-name" => Self::ShortName,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid(None),
            "uuid3" => Self::Uuid(Some('3')),
            "uuid4" => Self::Uuid(Some('4')),
            "uuid5" => Self::Uuid(Some('5')),
            _ => return None,
        })
    }

    /// The name in schemas.
    pub fn name(self) -> &'static str {
        match self {
            Self::BsonObjectId => "bsonobjectid",
            Self::Byte => "byte",
            Self::Cidr => "cidr",
            Self::CreditCard => "creditcard",
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Duration => "duration",
            Self::Email => "email",
            Self::HexColor => "hexcolor",
            Self::Hostname => "hostname",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Isbn(None) => "isbn",
            Self::Isbn(Some(10)) => "isbn10",
            Self::Isbn(Some(_)) => "isbn13",
            Self::Mac => "mac",
            Self::LongName => "k8s-long-name",
            Self::Password => "password",
            Self::RgbColor => "rgbcolor",
            Self::ShortName => "k8s-short-name",
            Self::Ssn => "ssn",
            Self::Uri => "uri",
            Self::Uuid(None) => "uuid",
            Self::Uuid(Some('3')) => "uuid3",
            Self::Uuid(Some('4')) => "uuid4",
            Self::Uuid(Some(_)) => "uuid5",
        }
    }

    /// Whether a text has the format.
    pub fn holds(self, text: &str) -> bool {
        match self {
            Self::Password | Self::Int32 | Self::Int64 => true,
            Self::BsonObjectId => text.len() == 24 && is_hex(text),
            Self::Byte => !text.is_empty() && BASE64.decode(text).is_ok(),
            Self::Cidr => is_cidr(text),
            Self::CreditCard => is_credit_card(text),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::Email => is_email(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && is_hex(digits)
            }
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Isbn(length) => is_isbn(text, length),
            Self::Mac => is_mac(text),
            Self::LongName => subdomain_errors(text).is_empty(),
            Self::RgbColor => is_rgb(text),
            Self::ShortName => label_errors(text).is_empty(),
            Self::Ssn => is_ssn(text),
            Self::Uri => is_uri(text),
            Self::Uuid(version) => is_uuid(text, version),
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number of exactly this many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits && are_digits(text)).then(|| text.parse().ok()).flatten()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let is_plain = are_digits(length) && (length == "0" || !length.starts_with('0'));
    let most = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    is_plain && length.parse::<u32>().is_ok_and(|length| length <= most)
}

/// Digits with spaces and dashes, and the check digit of Luhn.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> =
        text.chars().filter(|c| !matches!(c, ' ' | '-')).map_while(|c| c.to_digit(10)).collect();
    let is_clean = text.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | '-'));
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match at % 2 {
            0 => *digit,
            _ if digit * 2 > 9 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    is_clean && (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) = (
        parts.next().and_then(|part| number(part, 4)),
        parts.next().and_then(|part| number(part, 2)),
        parts.next().and_then(|part| number(part, 2)),
        parts.next(),
    ) else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A day, `T`, hours, minutes and seconds, perhaps a fraction, and `Z` or an offset.
fn is_date_time(text: &str) -> bool {
    let Some((day, time)) = text.split_once(['t', 'T']) else { return false };
    let two = |from: usize| time.get(from..from + 2).and_then(|part| number(part, 2));
    let colon = |at: usize| time.get(at..=at) == Some(":");
    let (Some(hours), Some(minutes), Some(seconds)) = (two(0), two(3), two(6)) else { return false };
    let rest = time.get(8..).unwrap_or_default();
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let is_offset = zone
        .strip_prefix(['+', '-'])
        .and_then(|zone| zone.split_once(':'))
        .is_some_and(|(hours, minutes)| number(hours, 2).is_some() && number(minutes, 2).is_some());
    is_date(day)
        && colon(2)
        && colon(5)
        && hours <= 23
        && minutes <= 59
        && seconds <= 59
        && (matches!(zone, "Z" | "z") || is_offset)
}

/// A duration of Go, or numbers with the names of units.
fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr", "hour", "d",
        "day", "w", "wk", "week",
    ];
    if duration::parse(text).is_some() {
        return true;
    }
    let mut rest = text.trim();
    let mut has_any = false;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if unit.len() == rest.len() {
            return false;
        }
        let unit = unit.trim_start();
        let after = unit.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
        let name = unit.get(..unit.len() - after.len()).unwrap_or_default().to_ascii_lowercase();
        let is_known = UNITS.iter().any(|known| name == *known || name.strip_suffix('s') == Some(*known));
        if !is_known {
            return false;
        }
        has_any = true;
        rest = after.trim_start();
    }
    has_any
}

/// The parts that every address has: something before and a name of a host behind the last `@`.
fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.strip_suffix('>')) {
        (Some(start), Some(rest)) => rest.get(start + 1..).unwrap_or_default(),
        _ => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let are_atoms = |text: &str| text.split('.').all(|part| !part.is_empty() && part.chars().all(is_atom));
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    (is_quoted || are_atoms(local)) && (is_literal || are_atoms(domain))
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |c: char| c.is_alphanumeric() || c == '-';
        let is_end = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        label.chars().count() <= 63
            && is_end(label.chars().next())
            && is_end(label.chars().next_back())
            && label.chars().all(is_inner)
    };
    !text.is_empty() && text.len() <= 255 && text.split('.').all(is_label)
}

fn is_isbn(text: &str, length: Option<u8>) -> bool {
    let clean: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let digits: Vec<u32> = clean.chars().filter_map(|c| c.to_digit(10)).collect();
    let is_ten = || {
        let last = match clean.chars().nth(9) {
            Some('X') => 10,
            Some(c) => c.to_digit(10).unwrap_or(11),
            None => return false,
        };
        let first = digits.get(..9).unwrap_or_default();
        let sum: u32 = first.iter().zip(1..).map(|(digit, weight)| digit * weight).sum();
        clean.len() == 10 && first.len() == 9 && last <= 10 && (sum + 10 * last).is_multiple_of(11)
    };
    let is_thirteen = || {
        let sum: u32 =
            digits.iter().enumerate().map(|(at, digit)| digit * if at % 2 == 0 { 1 } else { 3 }).sum();
        clean.len() == 13 && digits.len() == 13 && sum.is_multiple_of(10)
    };
    match length {
        Some(10) => is_ten(),
        Some(_) => is_thirteen(),
        None => is_ten() || is_thirteen(),
    }
}

/// Six, eight or twenty bytes, with colons or dashes after each, or dots after each two.
fn is_mac(text: &str) -> bool {
    let parts = |separator: char, width: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).take(21).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == width && is_hex(part))
    };
    parts(':', 2, &[6, 8, 20]) || parts('-', 2, &[6, 8, 20]) || parts('.', 4, &[3, 4, 10])
}

fn is_rgb(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let is_part = |part: &&str| are_digits(part) && part.parse::<u32>().is_ok_and(|value| value <= 255);
    parts.len() == 3 && parts.iter().all(is_part)
}

fn is_ssn(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let separators = text.len() - digits.len();
    digits.len() == 9 && are_digits(&digits) && separators <= 2 && {
        let bare: Vec<&str> = text.split([' ', '-']).collect();
        matches!(
            bare.iter().map(|part| part.len()).collect::<Vec<_>>().as_slice(),
            [9] | [3, 2, 4] | [5, 4] | [3, 6]
        )
    }
}

/// An absolute path, or a scheme and what follows it.
fn is_uri(text: &str) -> bool {
    let is_clean = |text: &str| !text.is_empty() && text.chars().all(|c| c > ' ' && c != '\u{7f}');
    let escapes = || text.split('%').skip(1).all(|rest| rest.get(..2).is_some_and(is_hex));
    if text.starts_with('/') {
        return is_clean(text) && escapes();
    }
    let Some((scheme, _)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && is_clean(text) && escapes()
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes_fit = {
        // Each dash is optional, at its place.
        let mut at = 0;
        let mut fits = true;
        for c in text.chars() {
            match c {
                '-' => fits &= matches!(at, 8 | 12 | 16 | 20),
                _ => at += 1,
            }
        }
        fits && !text.contains("--")
    };
    let is_variant =
        || digits.chars().nth(16).is_some_and(|c| matches!(c.to_ascii_lowercase(), '8' | '9' | 'a' | 'b'));
    digits.len() == 32
        && is_hex(&digits)
        && dashes_fit
        && version
            .is_none_or(|version| digits.chars().nth(12) == Some(version) && (version == '3' || is_variant()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_format_or_not() {
        for (format, good, bad) in [
            (
                "date-time",
                &["2024-02-29T10:00:00Z", "2024-01-01t23:59:59.5+01:00"][..],
                &["yesterday", "2023-02-29T10:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T10:00:00"][..],
            ),
            ("date", &["2024-02-29"], &["2024-2-29", "2024-13-01", ""]),
            ("ipv4", &["10.0.0.1"], &["10.0.0.256", "::1"]),
            ("ipv6", &["::1"], &["10.0.0.1"]),
            ("cidr", &["10.0.0.0/8", "fd00::/8"], &["10.0.0.0", "10.0.0.0/33"]),
            ("email", &["a@b.example", "A B <a@b>"], &["nobody", "@b", "a@"]),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
                &["123e4567-e89b"],
            ),
            ("byte", &["aGVsbG8="], &["!!", ""]),
            ("uri", &["https://a.example/x", "/path"], &["not a link", "a"]),
            ("hostname", &["a.example", "a-b"], &["-a-", "a..b", ""]),
            ("duration", &["5m", "1h30m", "5 days", "2w"], &["5 parsecs", "x", ""]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23", "zz:23:45:67:89:ab"]),
            ("hexcolor", &["#fff", "a0b1c2"], &["#ff"]),
            ("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2)", "rgb(1,2,256)"]),
            ("ssn", &["123-45-6789"], &["12-345-6789"]),
            ("isbn", &["0-306-40615-2", "978-0-306-40615-7"], &["0-306-40615-3"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
            ("k8s-short-name", &["a-b"], &["a.b"]),
            ("k8s-long-name", &["a.b"], &["A.b"]),
        ] {
            let known = Format::named(format).unwrap();
            assert_eq!(known.name(), format);
            good.iter().for_each(|text| assert!(known.holds(text), "{format} {text}"));
            bad.iter().for_each(|text| assert!(!known.holds(text), "{format} {text}"));
        }
        assert_eq!(Format::named("rocket"), None);
    }
}
