//! Kubeconfig files: how they are read, and what a context in them names.

pub mod service;

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig};

use crate::connect_error::{ConnectError, describe};

/// A PEM text.
type Pem = Vec<u8>;

/// Reads and merges kubeconfig files; missing ones are skipped unless they must exist.
pub(crate) fn read(paths: &[PathBuf], must_exist: bool) -> Result<Kubeconfig, ConnectError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        if !must_exist && !path.exists() {
            continue;
        }
        // The library's own error would quote the invalid line, which may be a key.
        read_file(path)?;
        let refuse = |why: String| ConnectError::Kubeconfig { origin: path.display().to_string(), why };
        let next = Kubeconfig::read_from(path)
            .map_err(|e| refuse(format!("not a kubeconfig{}", place(&describe(&e)))))?;
        merged = merged.merge(next).map_err(|e| refuse(describe(&e)))?;
    }
    Ok(merged)
}

/// Reads a kubeconfig, or a file that it names.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, ConnectError> {
    fs::read(path).map_err(|e| ConnectError::File { path: path.to_owned(), why: e.to_string() })
}

/// Extracts the position from a YAML error. The rest of the error may quote a secret.
fn place(said: &str) -> String {
    let number_after = |word: &str| -> Option<u64> {
        let (_, rest) = said.split_once(word)?;
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    match (number_after("line "), number_after("column ")) {
        (Some(line), Some(column)) => format!(": it cannot be read from line {line} column {column} on"),
        _ => ": it is not of the form of one".to_owned(),
    }
}

/// The cluster and the user that a context names. Other entries play no part (WH-2).
pub(crate) struct Chosen {
    /// The name of the context.
    pub(crate) context: String,
    pub(crate) cluster: Cluster,
    pub(crate) user: AuthInfo,
    /// The file or files, for errors.
    origin: String,
    /// The folder of relative paths.
    folder: PathBuf,
}

impl Chosen {
    /// Uses the context of this name, or the current one. Its cluster must exist and have a server; without a user no
    /// credentials are presented (WH-3).
    ///
    /// # Errors
    /// There is no such context or cluster.
    pub(crate) fn of(
        kubeconfig: &Kubeconfig,
        context: Option<&str>,
        origin: String,
    ) -> Result<Self, ConnectError> {
        let choose = || {
            let current = kubeconfig.current_context.as_deref();
            let name = context.or(current).filter(|name| !name.is_empty()).ok_or(
                "no current-context: name one of the contexts in it, or with --context if there is that flag",
            )?;
            let found = kubeconfig.contexts.iter().find(|context| context.name == name).ok_or_else(|| {
                let known: Vec<&str> = kubeconfig.contexts.iter().map(|context| &*context.name).collect();
                format!("{name:?} names no context; there are: {}", known.join(", "))
            })?;
            let context = found.context.clone().unwrap_or_default();
            let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
            let cluster = cluster
                .and_then(|named| named.cluster.clone())
                .ok_or_else(|| format!("context {name:?}: there is no cluster {:?}", context.cluster))?;
            if cluster.server.as_deref().unwrap_or_default().is_empty() {
                return Err(format!("cluster {:?} has no server", context.cluster));
            }
            let user = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
            let user = user.and_then(|user| user.auth_info.clone()).unwrap_or_default();
            Ok((name.to_owned(), cluster, user))
        };
        match choose() {
            Ok((context, cluster, user)) => {
                Ok(Self { context, cluster, user, origin, folder: PathBuf::new() })
            }
            Err(why) => Err(ConnectError::Kubeconfig { origin, why }),
        }
    }

    /// Uses relative paths from this folder. The paths of a file that [`read`] has read are relative to no folder.
    pub(crate) fn within(self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// Creates an error about this kubeconfig.
    pub(crate) fn refuse(&self, why: impl Into<String>) -> ConnectError {
        ConnectError::Kubeconfig { origin: self.origin.clone(), why: why.into() }
    }

    /// Returns the path of a file in this kubeconfig, unless it is empty.
    pub(crate) fn path(&self, path: Option<&String>) -> Option<PathBuf> {
        path.filter(|path| !path.is_empty()).map(|path| self.folder.join(path))
    }

    /// Returns the CA certificates of the server, in PEM, if there are any.
    ///
    /// # Errors
    /// The file cannot be read, or the data is not base64.
    pub(crate) fn authority(&self) -> Result<Option<Vec<u8>>, ConnectError> {
        let Cluster { certificate_authority, certificate_authority_data, .. } = &self.cluster;
        self.material(
            "certificate-authority",
            certificate_authority.as_ref(),
            certificate_authority_data.as_deref(),
        )
    }

    /// Returns the client certificate and its key, both in PEM, if there are any. Reads each file once: so a renewal
    /// cannot cause a mismatch of a pair in one file.
    ///
    /// # Errors
    /// A file cannot be read, data is not base64, or one of the two is missing.
    pub(crate) fn identity(&self) -> Result<Option<(Pem, Pem)>, ConnectError> {
        let AuthInfo { client_certificate, client_certificate_data, client_key, .. } = &self.user;
        let key_data = self.secret("client-key-data");
        let certificate = self.material(
            "client-certificate",
            client_certificate.as_ref(),
            client_certificate_data.as_deref(),
        )?;
        let is_one_file =
            client_certificate == client_key && client_certificate_data.is_none() && key_data.is_none();
        let key = match is_one_file {
            true => certificate.clone(),
            false => self.material("client-key", client_key.as_ref(), key_data.as_deref())?,
        };
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (Some(_), None) => Err(self.refuse("client-certificate without client-key")),
            (None, Some(_)) => Err(self.refuse("client-key without client-certificate")),
        }
    }

    /// Returns a secret field of the user, unless it is empty.
    pub(crate) fn secret(&self, field: &str) -> Option<String> {
        // Only this form contains the secrets.
        let user = serde_json::to_value(&self.user).ok()?;
        user.get(field)?.as_str().filter(|secret| !secret.is_empty()).map(str::to_owned)
    }

    /// Inline data takes precedence over a file (WH-6).
    fn material(
        &self,
        what: &str,
        file: Option<&String>,
        data: Option<&str>,
    ) -> Result<Option<Vec<u8>>, ConnectError> {
        if let Some(data) = data.filter(|data| !data.is_empty()) {
            let compact: String = data.split_whitespace().collect();
            let decoded = STANDARD.decode(compact);
            return decoded
                .map(Some)
                .map_err(|error| self.refuse(format!("{what}-data: not base64: {error}")));
        }
        self.path(file).map(|path| read_file(&path)).transpose()
    }
}
