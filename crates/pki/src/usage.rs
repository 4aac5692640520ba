//! Key usages and extended key usages, by their Kubernetes names (CS-12, CS-62).

use x509_cert::der::asn1::ObjectIdentifier;

/// The bits of a key usage extension that certificates of our own have.
const DIGITAL_SIGNATURE: u16 = bit(0);
const KEY_ENCIPHERMENT: u16 = bit(2);
const CERT_SIGN: u16 = bit(5);

/// A bit of a key usage extension, counted from the highest.
const fn bit(number: u32) -> u16 {
    0x8000 >> number
}

const fn id(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

pub(crate) const SERVER_AUTH: ObjectIdentifier = id("1.3.6.1.5.5.7.3.1");
/// `1.3.6.1.5.5.7.3.2`
pub(crate) const CLIENT_AUTH: ObjectIdentifier = id("1.3.6.1.5.5.7.3.2");
/// `2.5.29.37.0`
pub(crate) const ANY: ObjectIdentifier = id("2.5.29.37.0");

static KEY_USAGES: [(&str, u16); 10] = [
    ("signing", DIGITAL_SIGNATURE),
    ("digital signature", DIGITAL_SIGNATURE),
    ("content commitment", bit(1)),
    ("key encipherment", KEY_ENCIPHERMENT),
    ("key agreement", bit(4)),
    ("data encipherment", bit(3)),
    ("cert sign", CERT_SIGN),
    ("crl sign", bit(6)),
    ("encipher only", bit(7)),
    ("decipher only", bit(8)),
];

/// In the order in which certificates list them (CS-69).
static EXTENDED: [(&str, ObjectIdentifier); 13] = [
    ("any", ANY),
    ("server auth", SERVER_AUTH),
    ("client auth", CLIENT_AUTH),
    ("code signing", id("1.3.6.1.5.5.7.3.3")),
    ("email protection", id("1.3.6.1.5.5.7.3.4")),
    ("s/mime", id("1.3.6.1.5.5.7.3.4")),
    ("ipsec end system", id("1.3.6.1.5.5.7.3.5")),
    ("ipsec tunnel", id("1.3.6.1.5.5.7.3.6")),
    ("ipsec user", id("1.3.6.1.5.5.7.3.7")),
    ("timestamping", id("1.3.6.1.5.5.7.3.8")),
    ("ocsp signing", id("1.3.6.1.5.5.7.3.9")),
    ("microsoft sgc", id("1.3.6.1.4.1.311.10.3.3")),
    ("netscape sgc", id("2.16.840.1.113730.4.1")),
];

/// The usages of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usages {
    key: u16,
    extended: Vec<ObjectIdentifier>,
}

/// An unknown usage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized usage {0:?}")]
pub struct UnknownUsage(String);

impl Usages {
    /// The usages of these names, in any order.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownUsage> {
        let mut key = 0;
        let mut is_asked = [false; EXTENDED.len()];
        for name in names {
            if let Some((_, bit)) = KEY_USAGES.iter().find(|(known, _)| *known == name) {
                key |= bit;
                continue;
            }
            let place = EXTENDED.iter().zip(&mut is_asked).find(|((known, _), _)| *known == name);
            *place.ok_or_else(|| UnknownUsage(name.to_owned()))?.1 = true;
        }
        let asked = EXTENDED.iter().zip(is_asked).filter(|(_, is_asked)| *is_asked);
        let mut extended: Vec<ObjectIdentifier> = asked.map(|((_, oid), _)| *oid).collect();
        extended.dedup();
        Ok(Self { key, extended })
    }

    /// The usages of an authority's own certificate.
    pub(crate) fn of_authority() -> Self {
        Self { key: DIGITAL_SIGNATURE | KEY_ENCIPHERMENT | CERT_SIGN, extended: Vec::new() }
    }

    /// Digital signature, and this extended usage alone.
    pub(crate) fn only(purpose: ObjectIdentifier) -> Self {
        Self { key: DIGITAL_SIGNATURE, extended: vec![purpose] }
    }

    /// These usages, and key encipherment, which RSA keys have as well.
    pub(crate) fn with_key_encipherment(self) -> Self {
        Self { key: self.key | KEY_ENCIPHERMENT, ..self }
    }

    /// The extended usages, in the order of a certificate.
    pub(crate) fn extended(&self) -> &[ObjectIdentifier] {
        &self.extended
    }

    /// The contents of the BIT STRING of a key usage extension: the number of unused bits in the last byte, and the bytes.
    /// `None` if no bit is set.
    pub(crate) fn key_bits(&self) -> Option<Vec<u8>> {
        let unused = u8::try_from(self.key.trailing_zeros()).ok().filter(|_| self.key != 0)?;
        let [high, low] = self.key.to_be_bytes();
        Some(if unused >= 8 { vec![unused - 8, high] } else { vec![unused, high, low] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_to_usages_in_a_fixed_order_cs_62() {
        let usages =
            Usages::named(["s/mime", "client auth", "email protection", "signing", "decipher only"]).unwrap();
        assert_eq!(usages.extended, [CLIENT_AUTH, id("1.3.6.1.5.5.7.3.4")]);
        // X.690, 11.2.2: trailing zero bits are omitted.
        assert_eq!(usages.key_bits().unwrap(), [7, 0b1000_0000, 0b1000_0000]);
        assert_eq!(
            Usages::named(["key encipherment", "digital signature"]).unwrap().key_bits().unwrap(),
            [5, 0xa0]
        );
        assert_eq!(Usages::named(["server auth"]).unwrap().key_bits(), None);
        assert_eq!(Usages::named(["Client auth"]), Err(UnknownUsage("Client auth".to_owned())));
    }
}
