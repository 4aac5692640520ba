//! Finds the ends of certificates in memory that is larger than they are (AT-111).

use crate::wire::Malformed;

/// How many certificates a chain may have.
const MAX_CERTIFICATES: usize = 16;
const SEQUENCE: u8 = 0x30;

/// The certificates (DER) in the content of one or more NV indexes: one after the other, with padding between and after
/// them, which is cut (AT-111).
///
/// # Errors
/// There are other bytes than certificates and padding (`00` and `ff`), or more than 16 certificates.
pub fn split_certificates(content: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut certificates = Vec::new();
    let mut rest = content;
    while let Some(start) = rest.iter().position(|byte| !matches!(byte, 0x00 | 0xff)) {
        if certificates.len() == MAX_CERTIFICATES {
            return Err(Malformed("more than 16 certificates"));
        }
        let from = rest.get(start..).unwrap_or_default();
        let (certificate, behind) = sequence(from).ok_or(Malformed("bytes that are no certificate"))?;
        certificates.push(certificate.to_vec());
        rest = behind;
    }
    Ok(certificates)
}

/// The DER sequence at the beginning, and what follows it. A certificate has 128 to 65,535 bytes.
fn sequence(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, length) = match bytes {
        [SEQUENCE, 0x81, length, ..] => (3_usize, usize::from(*length)),
        [SEQUENCE, 0x82, high, low, ..] => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        _ => return None,
    };
    bytes.split_at_checked(header.checked_add(length)?)
}
