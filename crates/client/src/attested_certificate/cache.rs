//! The cache directory of a node (AT-18 to AT-22).
//!
//! A certificate and its key are a generation: a folder that is written completely before the link `current` is replaced.
//! So a killed process leaves the old generation or the new one, never a mixture.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use portcullis_apimachinery::time::Instant;
use portcullis_attestation::time::{instant, system_time};
use portcullis_pki::IssuedCertificate;
use portcullis_tpm::Tpm;
use serde::{Deserialize, Serialize};

use super::error::AttestedError;
use super::key::NodeKey;
use crate::clock::Clock;
use crate::node_certificate::error::{CredentialError, FileError};
use crate::node_certificate::files::{
    Lock, failed, read, read_private, remove, sync_dir, write_private, write_public,
};

const LOCK: &str = "lock";
const CURRENT: &str = "current";
const GENERATION: &str = "gen-";
const CERTIFICATE: &str = "client.crt";
const META: &str = "meta.json";
const STATE: &str = "state.json";
const PENDING: &str = "pending";
/// How long a pending key is used (AT-21).
const PENDING_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a locked cache is tried again.
const LOCKED: Duration = Duration::from_millis(20);

/// The cache directory.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// What is known about a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The format of the folder: 1.
    pub format: u32,
    /// The name of the node.
    pub node_name: String,
    /// The attestor.
    pub provider: String,
    /// The signer.
    pub signer: String,
    /// The name of the request.
    pub csr_name: String,
    /// The UID of the request.
    pub csr_uid: String,
    /// The SHA-256 digest of the public key, in hexadecimal digits.
    pub public_key: String,
    /// When the certificate begins to be valid.
    pub not_before: String,
    /// When it stops being valid.
    pub not_after: String,
    /// The version of the evidence.
    pub attestation_version: String,
}

/// A generation that can be read.
#[derive(Debug)]
pub struct Generation {
    /// The certificate.
    pub certificate: IssuedCertificate,
    /// Its key.
    pub key: NodeKey,
    /// What else is known about it.
    pub meta: Meta,
}

/// The request of a pending key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRequest {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// `single`, `enrol` or `prove`.
    pub phase: String,
    /// The SHA-256 digest of `spec.request`, in hexadecimal digits.
    pub digest: String,
}

/// What is remembered between runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// Until when no renewal is tried.
    pub back_off_until: Option<String>,
    /// How many renewals failed in a row.
    pub failures: u32,
    /// Until when no request is made, because the controller refused the last one.
    pub refused_until: Option<String>,
    /// Why it did.
    pub refused_reason: String,
    /// The last error, for people.
    pub last_error: String,
    /// The latest time that was seen.
    pub high_water: Option<String>,
}

impl State {
    /// Reads a time.
    pub fn time(text: Option<&String>) -> Option<SystemTime> {
        Instant::parse(text?).ok().map(system_time)
    }
}

impl Cache {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// It is not a directory of the running user with the mode 0700.
    pub fn open(dir: &Path) -> Result<Self, AttestedError> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("make", dir))?;
        let found = fs::symlink_metadata(dir).map_err(failed("read", dir))?;
        let own = rustix::process::geteuid().as_raw();
        let is_private = found.is_dir() && found.mode() & 0o777 == 0o700 && found.uid() == own;
        if !is_private {
            return Err(AttestedError::Integrity(format!(
                "{} must be a directory of user {own} with the mode 0700; it has the mode {:o} and belongs to user {}",
                dir.display(),
                found.mode() & 0o7777,
                found.uid()
            )));
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the lock, which the system releases when the process ends (AT-19).
    ///
    /// # Errors
    /// Another process has it for too long.
    pub async fn lock(&self, wait: Duration, clock: &dyn Clock) -> Result<Lock, AttestedError> {
        let began = clock.running();
        loop {
            match Lock::take(&self.dir, LOCK) {
                Ok(lock) => return Ok(lock),
                Err(CredentialError::Held { .. }) if clock.running().saturating_sub(began) < wait => {
                    clock.sleep(LOCKED).await;
                }
                Err(error @ CredentialError::Held { .. }) => {
                    return Err(AttestedError::Temporary(error.to_string()));
                }
                Err(error) => return Err(AttestedError::Integrity(error.to_string())),
            }
        }
    }

    /// Reads the current generation; none if there is none, or the reason why it cannot be used.
    ///
    /// # Errors
    /// Its key is readable by others.
    pub fn current(&self, tpm: Option<&Tpm>) -> Result<Result<Option<Generation>, String>, AttestedError> {
        let link = self.dir.join(CURRENT);
        let folder = match fs::read_link(&link) {
            Ok(target) => self.dir.join(target.file_name().unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(None)),
            Err(error) => return Ok(Err(format!("{}: {error}", link.display()))),
        };
        let Some(certificate) = read(&folder.join(CERTIFICATE))? else {
            return Ok(Err(format!("{} is missing", folder.join(CERTIFICATE).display())));
        };
        let certificate = match IssuedCertificate::from_pem(&certificate) {
            Ok(certificate) => certificate,
            Err(why) => return Ok(Err(format!("{}: {why}", folder.join(CERTIFICATE).display()))),
        };
        let key = match key_in(&folder, "client", tpm) {
            Ok(Some(key)) => key,
            Ok(None) => return Ok(Err(format!("{}: the key is missing", folder.display()))),
            Err(KeyError::Unreadable(why)) => return Ok(Err(why)),
            Err(KeyError::Insecure(error)) => return Err(error.into()),
        };
        let meta = read(&folder.join(META))?.unwrap_or_default();
        match serde_json::from_slice(&meta) {
            Ok(meta) => Ok(Ok(Some(Generation { certificate, key, meta }))),
            Err(error) => Ok(Err(format!("{}: {error}", folder.join(META).display()))),
        }
    }

    /// Writes a new generation, completely, without making it the current one. Returns its name.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(
        &self,
        certificate: &IssuedCertificate,
        key: &NodeKey,
        meta: &Meta,
    ) -> Result<String, AttestedError> {
        let number = self.generations()?.into_iter().map(|(number, _)| number).max().unwrap_or(0);
        let name = format!("{GENERATION}{:06}", number.saturating_add(1));
        let folder = self.dir.join(&name);
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed("make", &folder))?;
        let (extension, bytes) = key.written()?;
        write_private(&folder.join(format!("client.{extension}")), &bytes)?;
        write_public(&folder.join(CERTIFICATE), certificate.to_pem().as_bytes())?;
        let meta =
            serde_json::to_vec_pretty(meta).map_err(|error| AttestedError::Integrity(error.to_string()))?;
        write_public(&folder.join(META), &meta)?;
        sync_dir(&folder).map_err(failed("write", &folder))?;
        Ok(name)
    }

    /// Makes a generation the current one, and removes all but this one and the one before it (AT-20).
    ///
    /// # Errors
    /// The link cannot be replaced.
    pub fn switch_to(&self, name: &str) -> Result<(), AttestedError> {
        let (link, new) = (self.dir.join(CURRENT), self.dir.join("current.new"));
        let before = fs::read_link(&link).ok();
        let replace = || {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            symlink(name, &new)?;
            fs::rename(&new, &link)?;
            sync_dir(&link)
        };
        replace().map_err(failed("replace", &link))?;
        for (_, other) in self.generations()? {
            let is_kept = other == name || before.as_deref() == Some(Path::new(&other));
            if !is_kept {
                let folder = self.dir.join(&other);
                fs::remove_dir_all(&folder).map_err(failed("remove", &folder))?;
            }
        }
        Ok(())
    }

    /// The generations by their numbers.
    fn generations(&self) -> Result<Vec<(u32, String)>, FileError> {
        let list = fs::read_dir(&self.dir).map_err(failed("read", &self.dir))?;
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let numbered = |name: String| Some((name.strip_prefix(GENERATION)?.parse().ok()?, name));
        Ok(list.filter_map(name).filter_map(numbered).collect())
    }

    /// Whether there may be a pending key.
    pub fn has_pending(&self) -> bool {
        self.dir.join(PENDING).exists()
    }

    /// Reads the pending key; none if there is none, or it is too old or unreadable (AT-21).
    ///
    /// # Errors
    /// It is readable by others.
    pub fn pending_key(&self, tpm: Option<&Tpm>, now: SystemTime) -> Result<Option<NodeKey>, AttestedError> {
        let folder = self.dir.join(PENDING);
        let age = |path: &Path| -> Option<Duration> {
            now.duration_since(fs::metadata(path).ok()?.modified().ok()?).ok()
        };
        let is_old = NodeKey::FILES
            .iter()
            .filter_map(|extension| age(&pending_file(&folder, extension)))
            .any(|age| age > PENDING_LIFETIME);
        let key = match key_in(&folder, "key", tpm) {
            Ok(key) => key,
            Err(KeyError::Unreadable(_)) => None,
            Err(KeyError::Insecure(error)) => return Err(error.into()),
        };
        if key.is_none() || is_old {
            self.forget_pending()?;
            return Ok(None);
        }
        Ok(key)
    }

    /// Keeps a pending key.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_pending_key(&self, key: &NodeKey) -> Result<(), AttestedError> {
        let folder = self.dir.join(PENDING);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed("make", &folder))?;
        let (extension, bytes) = key.written()?;
        write_private(&pending_file(&folder, extension), &bytes)?;
        Ok(())
    }

    /// Reads the request of the pending key.
    pub fn pending_request(&self) -> Option<PendingRequest> {
        let text = read(&self.dir.join(PENDING).join("request.json")).ok()??;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps the request of the pending key.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_pending_request(&self, request: &PendingRequest) -> Result<(), AttestedError> {
        let text =
            serde_json::to_vec(request).map_err(|error| AttestedError::Integrity(error.to_string()))?;
        write_private(&self.dir.join(PENDING).join("request.json"), &text)?;
        Ok(())
    }

    /// Forgets the request of the pending key.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget_pending_request(&self) -> Result<(), AttestedError> {
        let path = self.dir.join(PENDING).join("request.json");
        if path.exists() {
            remove(&path)?;
        }
        Ok(())
    }

    /// Forgets the pending key and its request.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn forget_pending(&self) -> Result<(), AttestedError> {
        let folder = self.dir.join(PENDING);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &folder)(error).into())
            }
            Err(_) => Ok(()),
            Ok(()) => Ok(File::open(&self.dir)
                .and_then(|dir| dir.sync_all())
                .map_err(failed("write", &self.dir))?),
        }
    }

    /// Reads what is remembered. Something that cannot be read is nothing.
    pub fn state(&self) -> State {
        let text = read(&self.dir.join(STATE)).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Keeps what is remembered.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_state(&self, state: &State) -> Result<(), AttestedError> {
        let text = serde_json::to_vec(state).map_err(|error| AttestedError::Integrity(error.to_string()))?;
        write_private(&self.dir.join(STATE), &text)?;
        Ok(())
    }
}

/// The text form of a time in the files.
pub(super) fn text(time: SystemTime) -> String {
    instant(time).to_string()
}

enum KeyError {
    Unreadable(String),
    Insecure(FileError),
}

fn pending_file(folder: &Path, extension: &str) -> PathBuf {
    match extension {
        "key" => folder.join("key.pem"),
        other => folder.join(format!("key.{other}")),
    }
}

/// Reads the key in a folder: `client.key` or `client.tpm`, or the pending `key.pem` or `key.tpm`.
fn key_in(folder: &Path, name: &str, tpm: Option<&Tpm>) -> Result<Option<NodeKey>, KeyError> {
    for extension in NodeKey::FILES {
        let path = match name {
            "key" => pending_file(folder, extension),
            name => folder.join(format!("{name}.{extension}")),
        };
        if let Some(bytes) = read_private(&path).map_err(KeyError::Insecure)? {
            let key = NodeKey::read(extension, &bytes, tpm);
            return key
                .map(Some)
                .map_err(|error| KeyError::Unreadable(format!("{}: {error}", path.display())));
        }
    }
    Ok(None)
}
