//! Writes kubeconfigs and manifests atomically, readable only by their owner (NB-18).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use crate::failure::Failure;

/// The flags for the file of a kubeconfig, and the server in it.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputFlags {
    /// The file to write, readable only by its owner [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Replace an existing file
    #[arg(long)]
    pub(super) overwrite: bool,

    /// The URL of the API server in the kubeconfig [default: that of this connection]
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<String>,

    /// The CA certificates of the API server, in PEM [default: those of this connection]
    #[arg(long, value_name = "FILE")]
    pub(super) certificate_authority: Option<PathBuf>,
}

impl OutputFlags {
    /// Returns the server's URL and CA, from the flags or from the connection.
    ///
    /// # Errors
    /// They are missing or invalid.
    pub(super) fn server(&self, server: &str, authority: &str) -> Result<Endpoint, Failure> {
        let url = self.server.as_deref().unwrap_or(server);
        let is_url = url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
        if !is_url || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Failure::input(format_args!(
                "--server {url:?}: must begin with https://: a credential goes to nobody who cannot show who they are"
            )));
        }
        let authority = match &self.certificate_authority {
            None => authority.to_owned(),
            Some(path) => {
                let failed = |why: &dyn std::fmt::Display| {
                    Failure::input(format_args!("--certificate-authority {}: {why}", path.display()))
                };
                let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
                portcullis_pki::CaBundle::from_pem(text.as_bytes()).map_err(|error| failed(&error))?;
                // Only certificates: the file may also contain a key.
                let blocks = portcullis_pki::pem::blocks(text.as_bytes());
                let certificates = blocks.iter().filter(|block| block.label == "CERTIFICATE");
                certificates.map(|block| portcullis_pki::pem::encode(&block.label, &block.der)).collect()
            }
        };
        if authority.is_empty() {
            return Err(Failure::input(
                "the kubeconfig in use names no certificate authority of the API server: name one with \
                 --certificate-authority FILE",
            ));
        }
        Ok(Endpoint { server: url.to_owned(), authority })
    }

    /// Prepares the output, so that an unusable file is an error before anything else happens.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub(super) fn begin(&self) -> Result<Pending, Failure> {
        match &self.output {
            None => Ok(Pending::Stdout),
            Some(path) => Pending::file(path, self.overwrite),
        }
    }
}

/// The API server in a kubeconfig.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    server: String,
    /// In PEM form.
    authority: String,
}

/// The credentials in a kubeconfig.
pub(super) enum Holder<'a> {
    /// A certificate and its key, in PEM.
    Certificate { certificate: &'a str, key: &'a str },
    /// A bearer token.
    Token(&'a str),
}

/// Returns a self-contained kubeconfig (NB-17).
pub(super) fn kubeconfig(endpoint: &Endpoint, holder: &Holder<'_>) -> String {
    let server = Value::from(endpoint.server.as_str());
    let authority = STANDARD.encode(&endpoint.authority);
    let user = match holder {
        Holder::Certificate { certificate, key } => format!(
            "client-certificate-data: {}\n    client-key-data: {}",
            STANDARD.encode(certificate),
            STANDARD.encode(key)
        ),
        Holder::Token(token) => format!("token: {}", Value::from(*token)),
    };
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: default\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {authority}\nusers:\n- name: kubelet-bootstrap\n  user:\n    \
         {user}\ncontexts:\n- name: kubelet-bootstrap\n  context:\n    cluster: default\n    user: \
         kubelet-bootstrap\ncurrent-context: kubelet-bootstrap\n"
    )
}

/// An output that is not written yet.
pub(super) enum Pending {
    /// Standard output.
    Stdout,
    /// A file with a temporary name, which is removed on drop.
    File {
        /// The final path.
        path: PathBuf,
        /// The temporary path.
        temporary: PathBuf,
        /// Whether an existing file may be replaced.
        overwrite: bool,
    },
}

impl Pending {
    /// Creates the temporary file beside the final path.
    ///
    /// # Errors
    /// The file exists and may not be replaced, or no file can be created.
    pub(super) fn file(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let temporary = path.with_added_extension(format!("new-{}", std::process::id()));
        let made = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary);
        made.map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File { path: path.to_owned(), temporary, overwrite })
    }

    /// Writes the text durably, then renames the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(self, text: &str) -> Result<(), Failure> {
        let Self::File { path, temporary, overwrite } = &self else {
            return Ok(io::stdout().lock().write_all(text.as_bytes())?);
        };
        let attempt = || {
            let mut file = File::options().write(true).open(temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            match overwrite {
                true => fs::rename(temporary, path)?,
                // Fails if the file was created meanwhile.
                false => fs::hard_link(temporary, path)?,
            }
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
        };
        attempt().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => cannot_write(path, &error),
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Self::File { temporary, .. } = self {
            // It may already be renamed.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn exists(path: &Path) -> Failure {
    Failure::input(format_args!("{} already exists: name another file, or add --overwrite", path.display()))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::unreachable(format_args!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_testkit::scratch::Scratch;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_there_as_a_whole_or_not_at_all_and_only_its_owner_can_read_it_nb_18() {
        let folder = Scratch::new();
        let path = folder.path().join("out");
        drop(Pending::file(&path, false).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "what is given up leaves nothing behind");
        let pending = Pending::file(&path, false).unwrap();
        assert!(!path.exists());
        pending.finish("one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Pending::file(&path, false).is_err());
        Pending::file(&path, true).unwrap().finish("two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        // A conflicting write.
        let other = folder.path().join("other");
        let pending = Pending::file(&other, false).unwrap();
        fs::write(&other, "theirs").unwrap();
        assert!(pending.finish("ours").is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
