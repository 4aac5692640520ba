//! Converts bytes to what the rules compare: certificate requests, certificates and times.

use std::time::{Duration, SystemTime};

use portcullis_apimachinery::time::Instant;
use portcullis_pki as pki;
use portcullis_policy::approval::machine::{Extension, Key, Leaf, Pkcs10};

use pki::csr::{Csr, Hash, KeyKind, SignatureKind};
use pki::shown::Shown;

/// Parses a certificate request in PEM, and verifies its signature with the key in it (NB-82).
///
/// # Errors
/// A description of the error.
pub fn pkcs10(pem: &[u8]) -> Result<Pkcs10, String> {
    let csr = Csr::from_pem(pem).map_err(|error| error.to_string())?;
    let names = csr.names();
    let texts = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
    let extension =
        |e: &pki::csr::RequestedExtension| Extension { oid: e.oid.clone(), is_ca: e.asks_for_authority() };
    Ok(Pkcs10 {
        common_name: csr.subject().common_name().map_err(|error| error.to_string())?.to_owned(),
        other_attributes: csr.subject().other_attributes(),
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

/// Converts a verified kubelet certificate.
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

/// Converts a time to the form of objects.
pub fn instant(time: SystemTime) -> Instant {
    let (seconds, nanoseconds) = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => (-i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX), 0),
    };
    Instant { seconds, nanoseconds }
}

/// Returns the elapsed time; zero for a time in the future.
pub(super) fn since(time: Instant, now: Instant) -> Duration {
    Duration::from_secs(u64::try_from(now.seconds.saturating_sub(time.seconds)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use portcullis_testkit::scratch::Scratch;

    use super::*;

    /// Creates a request with OpenSSL, with these additional arguments.
    fn made(arguments: &[&str]) -> Vec<u8> {
        let scratch = Scratch::new();
        let mut command = Command::new("openssl");
        command.args([
            "req",
            "-new",
            "-nodes",
            "-subj",
            "/O=system:nodes/CN=system:node:worker-0",
            "-keyout",
        ]);
        let output = command.arg(scratch.path().join("key")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    const P256: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

    #[test]
    fn requests_of_openssl_are_read_with_their_keys_nb_82() {
        for (arguments, key) in [
            (&P256[..], Key::P256),
            (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"], Key::P384),
            (&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp521r1"], Key::P521),
            (&["-newkey", "ed25519"], Key::Ed25519),
            (&["-newkey", "rsa:2048"], Key::Rsa { bits: 2048 }),
            (&["-newkey", "rsa:1024"], Key::Rsa { bits: 1024 }),
        ] {
            let found = pkcs10(&made(arguments)).unwrap();
            assert_eq!(found.key, key, "{arguments:?}");
            assert_eq!(found.common_name, "system:node:worker-0");
            assert_eq!(found.organizations, ["system:nodes"]);
            assert!(!found.is_sha1 && !found.has_trailing_data);
        }
        let p224 = made(&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp224r1"]);
        assert!(pkcs10(&p224).unwrap_err().contains("not supported"));
        assert!(pkcs10(&made(&["-newkey", "rsa:2048", "-sha1"])).unwrap().is_sha1);
    }

    #[test]
    fn two_keys_have_two_hashes_and_one_key_has_one_nb_94() {
        let (one, two) = (made(&P256), made(&P256));
        assert_ne!(pkcs10(&one).unwrap().key_hash, pkcs10(&two).unwrap().key_hash);
        assert_eq!(pkcs10(&one).unwrap().key_hash, pkcs10(&one).unwrap().key_hash);
    }

    #[test]
    fn names_and_extensions_of_every_kind_are_seen_nb_83_nb_107_nb_108() {
        let with = |extension: &str| pkcs10(&made(&[&P256[..], &["-addext", extension]].concat())).unwrap();
        let names = with("subjectAltName=DNS:a,DNS:b,IP:10.0.0.1,IP:fd00::1,email:a@b,URI:spiffe://a/b");
        assert_eq!((names.dns.len(), names.ip.len(), names.email.len(), names.uri.len()), (2, 2, 1, 1));
        assert_eq!(names.other_names, 0);
        assert!(names.extensions.iter().any(|e| e.oid == "2.5.29.17"));
        assert_eq!(with("subjectAltName=otherName:1.2.3.4;UTF8:worker-1").other_names, 1);
        assert_eq!(with("subjectAltName=RID:1.2.3.4,DNS:a").other_names, 1);
        let constraints = |text: &str| {
            let found = with(text);
            found.extensions.iter().find(|e| e.oid == "2.5.29.19").unwrap().is_ca
        };
        assert!(constraints("basicConstraints=critical,CA:TRUE"));
        assert!(!constraints("basicConstraints=CA:FALSE"));
    }

    #[test]
    fn further_names_and_attributes_of_a_subject_are_counted_nb_83() {
        let with = |subject: &str| pkcs10(&made(&[&P256[..], &["-subj", subject]].concat())).unwrap();
        let good = with("/O=system:nodes/CN=system:node:worker-0");
        assert_eq!(good.other_attributes, 0);
        for (subject, count) in [
            ("/CN=system:node:worker-0/O=system:nodes/O=system:masters", 0),
            ("/O=system:nodes/CN=admin/CN=system:node:worker-0", 1),
            ("/O=system:nodes/CN=system:node:worker-0/CN=system:node:worker-0", 1),
            ("/O=system:nodes/OU=x/CN=system:node:worker-0", 1),
            ("/C=DE/O=system:nodes/CN=system:node:worker-0/serialNumber=7", 2),
            ("/O=system:nodes/CN=system:node:worker-0/UID=uid", 1),
        ] {
            let found = with(subject);
            assert_eq!(
                (found.other_attributes, &*found.common_name),
                (count, "system:node:worker-0"),
                "{subject}"
            );
        }
    }

    #[test]
    fn what_is_not_one_sound_request_is_told_nb_82_t20() {
        let good = made(&P256);
        let mut trailing = good.clone();
        trailing.extend_from_slice(&made(&P256));
        assert!(pkcs10(&trailing).unwrap().has_trailing_data);
        let mut spaced = good.clone();
        spaced.extend_from_slice(b"\n \t\n");
        assert!(!pkcs10(&spaced).unwrap().has_trailing_data);
        let text = String::from_utf8(good.clone()).unwrap();
        let relabelled = text.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST");
        for damaged in ["", "no PEM", &relabelled] {
            assert!(pkcs10(damaged.as_bytes()).is_err(), "{damaged}");
        }
        // Another name with the old signature.
        let der = portcullis_pki::pem::first(&good).unwrap().der;
        let at = der.windows(8).position(|piece| piece == b"worker-0").unwrap();
        let mut changed = der;
        changed[at + 7] = b'1';
        let changed = portcullis_pki::pem::encode("CERTIFICATE REQUEST", &changed);
        assert!(pkcs10(changed.as_bytes()).is_err());
    }

    #[test]
    fn moments_before_and_after_1970_are_instants() {
        assert_eq!(
            instant(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)).to_string(),
            "1970-01-01T00:00:01Z"
        );
        assert_eq!(
            instant(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).to_string(),
            "1969-12-31T23:59:59Z"
        );
    }
}
