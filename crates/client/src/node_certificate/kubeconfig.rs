//! The kubeconfig of a node: whether the existing one is still usable, and how it is written (CS-130, CS-134, CS-137).

use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use kube::config::{AuthInfo, Cluster};
use portcullis_pki::Pair;

use super::error::{CredentialError, FileError};
use super::files::{read, write_private};
use crate::connect::ConnectError;
use crate::kubeconfig::{Chosen, read as read_kubeconfig};

/// An existing kubeconfig.
#[derive(Debug)]
pub enum Standing {
    /// There is none.
    Absent,
    /// It is unusable (CS-130).
    Invalid,
    /// It refers to a certificate in files, which is the second place where a kubelet looks (CS-113).
    Files(Box<Pair>, PathBuf),
    /// It contains a certificate, which may be used to request another one (CS-137).
    Inline(Box<Pair>),
}

/// Checks a kubeconfig: it is valid if it can be read, and none of its certificates has expired (CS-130).
///
/// # Errors
/// The file exists and cannot be read.
pub fn standing(path: &Path, now: SystemTime) -> Result<Standing, FileError> {
    if read(path)?.is_none() {
        return Ok(Standing::Absent);
    }
    Ok(examine(path, now).ok().flatten().unwrap_or(Standing::Invalid))
}

fn examine(path: &Path, now: SystemTime) -> Result<Option<Standing>, ConnectError> {
    let chosen = chosen(path)?;
    chosen.authority()?;
    let Some((certificate, key)) = chosen.identity()? else { return Ok(None) };
    let pair = Pair::from_pem(&certificate, &key).ok().filter(|pair| pair.is_unexpired(now)).map(Box::new);
    let AuthInfo { client_certificate, client_certificate_data, .. } = chosen.user;
    Ok(pair.map(|pair| match client_certificate.filter(|_| client_certificate_data.is_none()) {
        Some(file) => Standing::Files(pair, PathBuf::from(file)),
        None => Standing::Inline(pair),
    }))
}

/// Returns what the current context of a file names.
fn chosen(path: &Path) -> Result<Chosen, ConnectError> {
    Chosen::of(&read_kubeconfig(&[path.to_owned()], true)?, None, path.display().to_string())
}

/// Writes the kubeconfig of a node (CS-134): the server of another kubeconfig, and the path of a pair, which need not
/// exist yet (CS-135).
///
/// # Errors
/// The other kubeconfig has no server, or the file cannot be written.
pub fn write(path: &Path, from: &Path, pair: &Path) -> Result<(), CredentialError> {
    Ok(write_private(path, text(&chosen(from)?.cluster, pair).as_bytes())?)
}

fn text(cluster: &Cluster, pair: &Path) -> String {
    // Any JSON string is valid YAML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut lines = format!("    server: {}\n", quoted(cluster.server.as_deref().unwrap_or_default()));
    if let Some(data) = &cluster.certificate_authority_data {
        lines += &format!("    certificate-authority-data: {}\n", quoted(data));
    } else if let Some(file) = &cluster.certificate_authority {
        let file = absolute(file).unwrap_or_else(|_| PathBuf::from(file));
        lines += &format!("    certificate-authority: {}\n", quoted(&file.to_string_lossy()));
    }
    if cluster.insecure_skip_tls_verify == Some(true) {
        lines += "    insecure-skip-tls-verify: true\n";
    }
    if let Some(name) = &cluster.tls_server_name {
        lines += &format!("    tls-server-name: {}\n", quoted(name));
    }
    let pair = quoted(&pair.to_string_lossy());
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n{lines}users:\n- name: \
         default-auth\n  user:\n    client-certificate: {pair}\n    client-key: {pair}\ncontexts:\n- name: \
         default-context\n  context:\n    cluster: default-cluster\n    namespace: default\n    user: \
         default-auth\ncurrent-context: default-context\n"
    )
}
