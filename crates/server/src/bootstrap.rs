//! The first start creates a certificate authority, a serving certificate, administrator credentials and a token
//! signing key under `--data-dir`. Later starts reuse these files and renew certificates that are about to expire.
//!
//! Files are written atomically: to a temporary name first, then renamed. Only the owner can read keys.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pki::ca::{self, CaError, Template, Usage};
use pki::key::KeyError;
use pki::tls::{ServerTls, TlsError};
use pki::{CaBundle, CertificateAuthority, KeyPair, cert, pem};

use crate::clock::Clock;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Ten years, as with kubeadm.
const CA_LIFETIME: Duration = Duration::from_secs(3650 * DAY.as_secs());
const LEAF_LIFETIME: Duration = Duration::from_secs(365 * DAY.as_secs());
/// A certificate is renewed if less than this remains.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY.as_secs());

/// How often a running server looks whether its serving certificate must be renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The files that only the owner may read.
const PRIVATE: [&str; 7] = [
    "admin.key",
    "admin.kubeconfig",
    "apiserver.key",
    "ca.key",
    "objects.redb",
    "objects.redb.lock",
    "sa.key",
];

/// The names that in-cluster clients use for the API server.
const SERVICE_NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];

/// An unusable data directory.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The CA cannot be used.
    #[error("{}: {source}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CaError,
    },
    /// The CA is not usable as a client CA bundle.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Why.
        source: cert::CaBundleError,
    },
    /// The CA has expired, and so has everything that it issued.
    #[error("{} has expired: move the directory away, and a new authority is made at the next start", .0.display())]
    Expired(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One file of a pair is missing.
    #[error("{} is missing, but {} exists: restore it, or remove both to create new ones", missing.display(), present.display())]
    Half {
        /// The missing file.
        missing: PathBuf,
        /// The existing file.
        present: PathBuf,
    },
    /// Another process uses the directory.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// A key cannot be generated.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A file does not contain a key.
    #[error("{}: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// The serving certificate is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The files that a server needs to start: its certificate, the client CA, and the administrator's credentials.
#[derive(Debug)]
pub struct Bootstrap {
    /// The TLS configuration of the server.
    pub tls: ServerTls,
    /// The client CA bundle.
    pub clients: CaBundle,
    authority_pem: String,
    admin_certificate: String,
    admin_key: String,
    dir: PathBuf,
    bind_address: IpAddr,
    /// Held as long as the directory is in use.
    _lock: Lock,
}

impl Bootstrap {
    /// Reads the directory, and creates what is missing or about to expire.
    ///
    /// # Errors
    /// See [`BootstrapError`]. Existing files are kept.
    pub fn prepare(dir: &Path, bind_address: IpAddr, now: SystemTime) -> Result<Self, BootstrapError> {
        make_private(dir)?;
        let lock = Lock::take(dir)?;
        keep_private(dir)?;
        let authority = authority(dir, now)?;
        let bundle_error = |source| BootstrapError::Bundle { path: dir.join("ca.crt"), source };
        let clients = CaBundle::from_pem(authority.certificate_pem().as_bytes()).map_err(bundle_error)?;

        let serving = serving_template(bind_address);
        let (certificate, key) = leaf(dir, "apiserver", &authority, &serving, now)?;
        let tls = ServerTls::new(certificate.as_bytes(), &KeyPair::from_pem(key.as_bytes())?)?;
        // RB-126
        let admin = Template {
            common_name: "kubernetes-admin".to_owned(),
            organizations: vec!["system:masters".to_owned()],
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            usage: Usage::Client,
            lifetime: LEAF_LIFETIME,
        };
        let (admin_certificate, admin_key) = leaf(dir, "admin", &authority, &admin, now)?;
        Ok(Self {
            tls,
            clients,
            authority_pem: authority.certificate_pem(),
            admin_certificate,
            admin_key,
            dir: dir.to_owned(),
            bind_address,
            _lock: lock,
        })
    }

    /// Returns the signing key of service account tokens, in `sa.key`, which is created if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or written, or does not contain a key.
    pub fn service_account_key(&self) -> Result<KeyPair, BootstrapError> {
        let path = self.dir.join("sa.key");
        if let Some(text) = read(&path)? {
            return KeyPair::from_pem(&text).map_err(|source| BootstrapError::KeyFile { path, source });
        }
        let key = KeyPair::generate()?;
        write(&path, &key.to_pem(), 0o600)?;
        Ok(key)
    }

    /// Returns the CA for signing.
    ///
    /// # Errors
    /// Its files have changed since startup.
    pub fn authority(&self) -> Result<CertificateAuthority, BootstrapError> {
        authority(&self.dir, SystemTime::now())
    }

    /// Issues a certificate for a client in this process, and returns it with its key, in PEM. They are not stored in a
    /// file, and are valid as long as the CA.
    ///
    /// # Errors
    /// The CA files have changed since startup.
    pub fn issue_client(&self, common_name: &str) -> Result<(String, String), BootstrapError> {
        let template = Template {
            common_name: common_name.to_owned(),
            organizations: Vec::new(),
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            usage: Usage::Client,
            lifetime: CA_LIFETIME,
        };
        let key = KeyPair::generate()?;
        let certificate = self
            .authority()?
            .issue(&template, &key, SystemTime::now())
            .map_err(|source| BootstrapError::Authority { path: self.dir.join("ca.crt"), source })?;
        Ok((pem::encode("CERTIFICATE", &certificate), key.to_pem()))
    }

    /// Returns the CA certificate of the server, in PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Returns the URL of a server on this port of the local machine.
    pub fn url(&self, port: u16) -> String {
        match self.bind_address {
            ip if ip.is_unspecified() || ip == IpAddr::V4(Ipv4Addr::LOCALHOST) => {
                format!("https://127.0.0.1:{port}")
            }
            IpAddr::V4(ip) => format!("https://{ip}:{port}"),
            IpAddr::V6(ip) => format!("https://[{ip}]:{port}"),
        }
    }

    /// Writes `admin.kubeconfig` for a server on this port, and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kubeconfig(&self, port: u16) -> Result<PathBuf, BootstrapError> {
        let server = self.url(port);
        let authority = STANDARD.encode(&self.authority_pem);
        let certificate = STANDARD.encode(&self.admin_certificate);
        let key = STANDARD.encode(&self.admin_key);
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: portcullis\n  cluster:\n    server: \
             {server}\n    certificate-authority-data: {authority}\nusers:\n- name: \
             kubernetes-admin\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: \
             {key}\ncontexts:\n- name: kubernetes-admin@portcullis\n  context:\n    cluster: portcullis\n    \
             user: kubernetes-admin\ncurrent-context: kubernetes-admin@portcullis\n"
        );
        let path = self.dir.join("admin.kubeconfig");
        write(&path, &text, 0o600)?;
        Ok(path)
    }
}

/// Renews the server's own serving certificate in its files if it is about to expire. The server then loads the new one as
/// it loads other changes of the files.
///
/// # Errors
/// The files cannot be read or written, or the CA has expired.
pub fn renew_serving(dir: &Path, bind_address: IpAddr, now: SystemTime) -> Result<(), BootstrapError> {
    leaf(dir, "apiserver", &authority(dir, now)?, &serving_template(bind_address), now).map(drop)
}

/// Renews the server's own serving certificate while the server runs, and never returns.
pub(crate) async fn keep_serving(dir: PathBuf, bind_address: IpAddr, clock: Clock) {
    loop {
        tokio::time::sleep(RENEW_INTERVAL).await;
        let (dir, now) = (dir.clone(), clock.now());
        let renewed = tokio::task::spawn_blocking(move || renew_serving(&dir, bind_address, now)).await;
        if let Err(error) = renewed.map_err(io::Error::other).and_then(|done| done.map_err(io::Error::other))
        {
            tracing::error!(%error, "the serving certificate cannot be renewed; it will be tried again in an hour");
        }
    }
}

fn serving_template(bind_address: IpAddr) -> Template {
    let mut ip_addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    if !bind_address.is_unspecified() && !ip_addresses.contains(&bind_address) {
        ip_addresses.push(bind_address);
    }
    Template {
        common_name: "kube-apiserver".to_owned(),
        organizations: Vec::new(),
        dns_names: SERVICE_NAMES.map(str::to_owned).to_vec(),
        ip_addresses,
        usage: Usage::Server,
        lifetime: LEAF_LIFETIME,
    }
}

fn make_private(dir: &Path) -> Result<(), BootstrapError> {
    let file = |source| BootstrapError::File { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(file)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(file)
}

/// Restricts the permissions of private files, because a copy of the directory may have lost them.
fn keep_private(dir: &Path) -> Result<(), BootstrapError> {
    for name in PRIVATE {
        let path = dir.join(name);
        let file = |source| BootstrapError::File { path: path.clone(), source };
        let mode = match fs::metadata(&path) {
            Ok(metadata) => metadata.permissions().mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(file(error)),
        };
        if mode & 0o077 != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(file)?;
            tracing::warn!(
                file = %path.display(),
                "others could read or write this file; its permissions were restricted. If it may be compromised, remove it to create a new one"
            );
        }
    }
    Ok(())
}

/// The lock file that keeps other processes away from the directory.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn take(dir: &Path) -> Result<Self, BootstrapError> {
        let path = dir.join("lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| BootstrapError::File { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(BootstrapError::InUse(dir.to_owned())),
            Err(TryLockError::Error(source)) => Err(BootstrapError::File { path, source }),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that was just forked also holds the lock until it calls exec. If
        // unlocking fails, closing must do.
        let _ = self.0.unlock();
    }
}

fn authority(dir: &Path, now: SystemTime) -> Result<CertificateAuthority, BootstrapError> {
    let (path, key_path) = (dir.join("ca.crt"), dir.join("ca.key"));
    let failed = |source| BootstrapError::Authority { path: path.clone(), source };
    let key = match (read(&path)?, read(&key_path)?) {
        (Some(certificate), Some(key)) => {
            let authority = CertificateAuthority::from_pem(&certificate, &key).map_err(failed)?;
            return match cert::not_after(&certificate) {
                Ok(end) if end > now => Ok(authority),
                Ok(_) => Err(BootstrapError::Expired(path)),
                Err(error) => Err(failed(CaError::Certificate(error))),
            };
        }
        (Some(_), None) => return Err(BootstrapError::Half { missing: key_path, present: path }),
        // An earlier start was interrupted between the two files, or the certificate was lost. With the old key, issued
        // certificates remain valid.
        (None, Some(key)) => KeyPair::from_pem(&key)?,
        (None, None) => KeyPair::generate()?,
    };
    let authority = CertificateAuthority::with_key(key, "portcullis-ca", now, CA_LIFETIME).map_err(failed)?;
    write_pair(dir, "ca", &authority.certificate_pem(), &authority.key().to_pem())?;
    Ok(authority)
}

/// Returns the certificate and key of this name. They are reissued unless the existing ones have the right names,
/// lifetime and CA.
fn leaf(
    dir: &Path,
    name: &str,
    authority: &CertificateAuthority,
    template: &Template,
    now: SystemTime,
) -> Result<(String, String), BootstrapError> {
    let path = dir.join(format!("{name}.crt"));
    if let (Some(certificate), Some(key)) = (read(&path)?, read(&dir.join(format!("{name}.key")))?)
        && ca::is_reusable(&certificate, &key, authority, template, now + RENEW_BEFORE)
        && let (Ok(certificate), Ok(key)) = (String::from_utf8(certificate), String::from_utf8(key))
    {
        return Ok((certificate, key));
    }
    let key = KeyPair::generate()?;
    let certificate =
        authority.issue(template, &key, now).map_err(|source| BootstrapError::Authority { path, source })?;
    let (certificate, key) = (pem::encode("CERTIFICATE", &certificate), key.to_pem());
    write_pair(dir, name, &certificate, &key)?;
    Ok((certificate, key))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, BootstrapError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BootstrapError::File { path: path.to_owned(), source }),
    }
}

fn write_pair(dir: &Path, name: &str, certificate: &str, key: &str) -> Result<(), BootstrapError> {
    write(&dir.join(format!("{name}.key")), key, 0o600)?;
    write(&dir.join(format!("{name}.crt")), certificate, 0o644)
}

/// Writes a file atomically and durably.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), BootstrapError> {
    let failed = |source| BootstrapError::File { path: path.to_owned(), source };
    let temporary = path.with_added_extension("new");
    let attempt = || {
        // The leftover of an interrupted start may have other permissions.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        if let Some(dir) = path.parent() {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    };
    attempt().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_testkit::scratch::Scratch;

    #[test]
    fn a_directory_is_free_at_once_although_a_child_still_has_the_file_open() {
        let dir = Scratch::new();
        let lock = Lock::take(dir.path()).unwrap();
        // As in a child between fork and exec: the same open file.
        let childs = lock.0.try_clone().unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(BootstrapError::InUse(_))));
        drop(lock);
        Lock::take(dir.path()).unwrap();
        drop(childs);
    }

    #[test]
    fn the_serving_certificate_is_renewed_before_it_expires_and_not_earlier() {
        let dir = Scratch::new();
        let (ip, now) = (IpAddr::V4(Ipv4Addr::LOCALHOST), SystemTime::now());
        let tls = Bootstrap::prepare(dir.path(), ip, now).unwrap().tls;
        let files =
            || ["apiserver.crt", "apiserver.key"].map(|name| fs::read(dir.path().join(name)).unwrap());
        let first = files();
        let due = now + LEAF_LIFETIME - RENEW_BEFORE;
        renew_serving(dir.path(), ip, due - DAY).unwrap();
        assert_eq!(files(), first);
        renew_serving(dir.path(), ip, due + DAY).unwrap();
        let [certificate, key] = files();
        assert!(certificate != first[0] && key != first[1]);
        assert!(cert::not_after(&certificate).unwrap() > now + LEAF_LIFETIME);
        tls.reload(&certificate, &KeyPair::from_pem(&key).unwrap()).unwrap();
    }
}
