//! The list of revoked authorities: a ConfigMap whose keys are the SHA-256 digests of their certificates (NB-25).
//!
//! Each value begins with the digest of the certificate's public key, because another certificate for the same key
//! would accept the same credentials and must be refused as well. The expiry and the common name follow for readers.

use std::collections::BTreeSet;
use std::time::SystemTime;

use kinds::Map;
use kinds::resources::core::config_maps::CONFIG_MAPS;
use pki::cert::KnownAuthority;
use portcullis_apimachinery::time::Instant;
use portcullis_store::{Entry, Write};
use serde_json::Value;

use crate::http::status::Status;
use crate::registry::{meta, storage, write};

/// The namespace of the list.
pub const LIST_NAMESPACE: &str = "kube-system";
/// The name of the list.
pub const LIST_NAME: &str = "portcullis-revoked-bootstrap-authorities";
/// If the list is longer, no authority in a ConfigMap is trusted, so that the list cannot be made to overflow.
const MOST: usize = 1_000;
/// The maximum length of a recorded authority name. In characters.
const NAME_LENGTH: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    certificates: BTreeSet<[u8; 32]>,
    keys: BTreeSet<[u8; 32]>,
    is_unreadable: bool,
}

impl Tombstones {
    /// Represents an unreadable list, which may contain any authority.
    pub(super) fn unreadable() -> Self {
        Self { is_unreadable: true, ..Self::default() }
    }

    /// Reads the list. Keys that are not digests are ignored.
    pub(super) fn read(config_map: &Map) -> Self {
        let data = config_map.get("data").and_then(Value::as_object);
        let mut read = Self::default();
        for (name, value) in data.into_iter().flatten() {
            let Some(certificate) = digest(name) else { continue };
            read.certificates.insert(certificate);
            let first = value.as_str().and_then(|text| text.split_whitespace().next());
            read.keys.extend(first.and_then(digest));
        }
        read
    }

    /// Returns whether this authority, or another certificate with the same key, was revoked.
    pub(super) fn refuses(&self, authority: &KnownAuthority) -> bool {
        self.is_unreadable
            || self.certificates.len() > MOST
            || self.certificates.contains(&authority.digest())
            || self.keys.contains(&authority.key_digest())
    }
}

/// Returns the write that adds these authorities to the list; none if they are all on it.
///
/// # Errors
/// The list cannot be written.
pub(super) fn written(list: Option<&Entry>, revoked: &[KnownAuthority]) -> Result<Option<Write>, Status> {
    let held = list.map(|entry| storage::decode(&entry.value)).transpose()?;
    let mut object = held.clone().unwrap_or_default();
    let mut data = match object.remove("data") {
        Some(Value::Object(data)) => data,
        _ => Map::new(),
    };
    let before = data.len();
    for authority in revoked {
        let name = authority.common_name().chars().filter(|c| !c.is_control()).take(NAME_LENGTH);
        let end = authority.not_after().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let end = Instant::of_seconds(i64::try_from(end.as_secs()).unwrap_or(i64::MAX));
        let value = format!("{} {end} {}", hex(&authority.key_digest()), name.collect::<String>());
        data.entry(hex(&authority.digest())).or_insert_with(|| value.trim_end().into());
    }
    if data.len() == before {
        return Ok(None);
    }
    object.insert("data".to_owned(), Value::Object(data));
    match list {
        Some(entry) => write::replace(&CONFIG_MAPS, entry, object, write::SERVER).map(Some),
        None => {
            meta::set(&mut object, "name", LIST_NAME);
            write::create(&CONFIG_MAPS, LIST_NAMESPACE, object, write::SERVER).map(Some)
        }
    }
}

/// Formats a digest as 64 lower-case hexadecimal digits.
pub(super) fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a digest in this format or in that of openssl: in either case, with or without colons.
pub(super) fn digest(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b':').collect();
    let mut digest = [0; 32];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != digest.len() || !rest.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written_here_and_by_openssl() {
        let digest_of_abc = pki::sha256(b"abc");
        // FIPS 180-2, appendix B.1.
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&digest_of_abc), text);
        let pairs: Vec<&str> = (0..32).map(|i| text.get(2 * i..2 * i + 2).unwrap()).collect();
        for text in [text, &text.to_uppercase(), &pairs.join(":"), &format!(" {text}\n")] {
            assert_eq!(digest(text), Some(digest_of_abc), "{text:?}");
        }
        for bad in ["", "ba", text.get(1..).unwrap(), &format!("{text}00"), &text.replace('b', "g")] {
            assert_eq!(digest(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_list_of_more_than_can_be_kept_refuses_everything_nb_25() {
        let signer = pki::bootstrap::sign_once("a", &[], std::time::SystemTime::now()).unwrap();
        let der = pki::pem::first(signer.authority_pem.as_bytes()).unwrap().der;
        let authority = KnownAuthority::read(der).unwrap();
        let list = |count: usize| {
            let data: Map = (0..count).map(|n| (format!("{n:064x}"), Value::from("nobody"))).collect();
            Tombstones::read(&Map::from_iter([("data".to_owned(), Value::Object(data))]))
        };
        assert!(!list(MOST).refuses(&authority));
        assert!(list(MOST + 1).refuses(&authority));
    }

    #[test]
    fn a_list_that_cannot_be_read_refuses_every_authority_nb_25() {
        let ca = pki::CertificateAuthority::generate(
            "ca",
            SystemTime::now(),
            std::time::Duration::from_secs(9000),
        );
        let authority = KnownAuthority::read(ca.unwrap().certificate().to_vec()).unwrap();
        assert!(!Tombstones::default().refuses(&authority));
        assert!(Tombstones::unreadable().refuses(&authority));
    }
}
