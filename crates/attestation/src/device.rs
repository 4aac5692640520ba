//! What a machine is recognized by: its chip, its enrolled key, or its first key.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hex::{hex, unhex};

/// The digest of what a machine is recognized by: the endorsement key of its TPM, the enrolled key or secret, or the key of
/// its first certificate. Written as `sha256:` and hexadecimal digits, as in an inventory (AT-112, AT-150).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device(pub [u8; 32]);

impl Device {
    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64)?;
        unhex(digits)?.try_into().ok().map(Self)
    }

    /// The hexadecimal digits, for names of objects.
    pub fn digits(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("expected sha256: and 64 hexadecimal digits");
        Self::parse(&text).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_as_its_digest() {
        let device = Device([0xab; 32]);
        assert_eq!(device.to_string(), format!("sha256:{}", "ab".repeat(32)));
        assert_eq!(Device::parse(&device.to_string()), Some(device));
        for wrong in ["", "sha256:", "sha1:abcd", &"ab".repeat(32), &format!("sha256:{}", "ab".repeat(31))] {
            assert_eq!(Device::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Device::parse(&format!("sha256:{}", "zz".repeat(32))), None);
    }
}
