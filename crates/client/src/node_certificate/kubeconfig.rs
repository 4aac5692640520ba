//! The kubeconfig of a node: whether the existing one is still usable, and how it is written (CS-130, CS-134, CS-137).

use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use portcullis_pki::Pair;

use super::files::{FileError, read, write_private};
use crate::connect::{self, ConnectError};

/// An existing kubeconfig.
#[derive(Debug)]
pub enum Standing {
    /// There is none.
    Absent,
    /// It is unusable (CS-130). Contains the reason.
    Invalid(String),
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
    Ok(examine(path, now).unwrap_or_else(Standing::Invalid))
}

fn examine(path: &Path, now: SystemTime) -> Result<Standing, String> {
    let kubeconfig = connect::read(&[path.to_owned()], true).map_err(|e| e.to_string())?;
    let (cluster, user) = chosen(&kubeconfig).ok_or("its current context names no cluster")?;
    if cluster.server.as_deref().unwrap_or_default().is_empty() {
        return Err("its cluster has no server".to_owned());
    }
    let read_text = |name: &str| -> Result<Vec<u8>, String> {
        let text = read(Path::new(name)).map_err(|e| e.to_string())?;
        text.ok_or_else(|| format!("{name} is not there"))
    };
    let decode = |text: &str| STANDARD.decode(text).map_err(|_| "its data is not base64".to_owned());
    if let Some(file) = cluster.certificate_authority.filter(|_| cluster.certificate_authority_data.is_none())
    {
        read_text(&file)?;
    }
    let certificate = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => decode(data)?,
        (None, Some(file)) => read_text(file)?,
        (None, None) => return Err("it has no client certificate".to_owned()),
    };
    // Only this form contains the secret.
    let inline_key = serde_json::to_value(&user)
        .ok()
        .and_then(|user| user.get("client-key-data")?.as_str().map(str::to_owned));
    let key = match (inline_key, &user.client_key) {
        (Some(data), _) => decode(&data)?,
        (None, Some(file)) => read_text(file)?,
        (None, None) => return Err("it has no client key".to_owned()),
    };
    let pair = Box::new(Pair::from_pem(&certificate, &key).map_err(|e| e.to_string())?);
    if !pair.is_unexpired(now) {
        return Err("its client certificate has expired".to_owned());
    }
    Ok(match user.client_certificate.filter(|_| user.client_certificate_data.is_none()) {
        Some(file) => Standing::Files(pair, PathBuf::from(file)),
        None => Standing::Inline(pair),
    })
}

/// Returns the cluster and the user of the current context.
fn chosen(kubeconfig: &Kubeconfig) -> Option<(Cluster, AuthInfo)> {
    let name = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *name)?.context.as_ref()?;
    let cluster =
        kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.clone()?;
    let user = context.user.as_ref().and_then(|name| {
        kubeconfig.auth_infos.iter().find(|user| user.name == *name).and_then(|user| user.auth_info.clone())
    });
    Some((cluster, user.unwrap_or_default()))
}

/// The kubeconfig cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kubeconfig with the server cannot be used.
    #[error(transparent)]
    From(#[from] ConnectError),
}

/// Writes the kubeconfig of a node (CS-134): the server of another kubeconfig, and the path of a pair, which need not
/// exist yet (CS-135).
///
/// # Errors
/// The other kubeconfig has no server, or the file cannot be written.
pub fn write(path: &Path, from: &Path, pair: &Path) -> Result<(), WriteError> {
    let kubeconfig = connect::read(&[from.to_owned()], true)?;
    let refuse =
        |why: &str| ConnectError::Kubeconfig { origin: from.display().to_string(), why: why.to_owned() };
    let (cluster, _) = chosen(&kubeconfig).ok_or_else(|| refuse("its current context names no cluster"))?;
    Ok(write_private(path, text(&cluster, pair).as_bytes())?)
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
