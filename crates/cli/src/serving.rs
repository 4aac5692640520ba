//! The serving certificate of a program, from the files that its flags name.

use std::path::Path;

use portcullis_pki::KeyPair;
use portcullis_pki::tls::ServerTls;
use portcullis_server::http::serving_certificate::ServingCertificate;

use crate::failure::Failure;

/// Reads the files of `--tls-cert-file` and `--tls-private-key-file`. Clients are asked for certificates only if somebody reads
/// them (KA-5).
///
/// # Errors
/// A file cannot be read, or the key is not that of the certificate.
pub(crate) fn serving(
    certificate: &Path,
    private_key: &Path,
    asks_clients: bool,
) -> Result<(ServerTls, ServingCertificate), Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::input(format_args!("{error} (--tls-cert-file, --tls-private-key-file)"))
    };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| wrong(&format_args!("cannot read {}: {error}", path.display())))
    };
    let (chain, key) = (read(certificate)?, read(private_key)?);
    let key = KeyPair::from_pem(&key)
        .map_err(|error| wrong(&format_args!("{}: {error}", private_key.display())))?;
    let made = match asks_clients {
        true => ServerTls::new(&chain, &key),
        false => ServerTls::asking_nobody(&chain, &key),
    };
    let tls = made.map_err(|error| wrong(&format_args!("{}: {error}", certificate.display())))?;
    Ok((tls, ServingCertificate::new(certificate.to_owned(), private_key.to_owned())))
}
