//! From bytes to what the rules compare: certificate requests, certificates, times.

use std::time::{Duration, SystemTime};

use portcullis_pki as pki;
use portcullis_policy::approval::machine::{Extension, Key, Leaf, Pkcs10};
use portcullis_policy::time::Instant;

use pki::csr::{Csr, Hash, KeyKind, SignatureKind};
use pki::shown::Shown;

/// What a certificate request in PEM form says, its signature verified with the key inside (NB-82).
///
/// # Errors
/// Why it is not taken for one.
pub fn pkcs10(pem: &[u8]) -> Result<Pkcs10, String> {
    let csr = Csr::from_pem(pem).map_err(|error| error.to_string())?;
    let names = csr.names();
    let texts = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
    let extension =
        |e: &pki::csr::RequestedExtension| Extension { oid: e.oid.clone(), is_ca: e.asks_for_authority() };
    Ok(Pkcs10 {
        common_name: csr.subject().common_name().map_err(|error| error.to_string())?.to_owned(),
        organizations: texts(csr.subject().organizations().map_err(|error| error.to_string())?),
        dns: names.dns.clone(),
        email: names.email.clone(),
        ip: names.ip.clone(),
        uri: names.uri.clone(),
        other_names: names.others,
        extensions: csr.extensions().iter().map(extension).collect(),
        key: match csr.key() {
            KeyKind::Rsa { bits } => Key::Rsa { bits: usize::try_from(bits).unwrap_or(0) },
            KeyKind::P256 => Key::P256,
            KeyKind::P384 => Key::P384,
            KeyKind::P521 => Key::P521,
            KeyKind::Ed25519 => Key::Ed25519,
            KeyKind::P224 => Key::Other,
        },
        key_hash: pki::sha256(csr.public_key_der()),
        is_sha1: matches!(
            csr.signature(),
            SignatureKind::Ecdsa(Hash::Sha1)
                | SignatureKind::RsaPkcs1(Hash::Sha1)
                | SignatureKind::RsaPss(Hash::Sha1)
        ),
        has_trailing_data: csr.has_trailing_data(),
    })
}

/// What a verified certificate of a kubelet says.
pub(super) fn leaf(shown: Shown) -> Leaf {
    Leaf {
        common_name: shown.common_name,
        not_before: instant(shown.not_before),
        not_after: instant(shown.not_after),
        dns: shown.names.dns,
        email: shown.names.email,
        ip: shown.names.ip,
        uri: shown.names.uri,
    }
}

/// A moment as objects hold it.
pub fn instant(time: SystemTime) -> Instant {
    let (seconds, nanoseconds) = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => (-i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX), 0),
    };
    Instant { seconds, nanoseconds }
}

/// How long ago that was; nothing for what lies ahead.
pub(super) fn since(time: Instant, now: Instant) -> Duration {
    Duration::from_secs(u64::try_from(now.seconds.saturating_sub(time.seconds)).unwrap_or(0))
}
