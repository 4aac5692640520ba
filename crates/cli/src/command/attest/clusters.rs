//! The file of `portcullis attest --clusters`: several workload clusters behind one controller.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use portcullis_apimachinery::names::is_dns_label;
use serde::Deserialize;

/// A workload cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Cluster {
    /// Its name; none for one cluster alone.
    pub(super) name: Option<String>,
    /// The kubeconfig of its API server.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    pub(super) context: Option<String>,
    /// Its configuration.
    pub(super) config: PathBuf,
    /// The authority that signs the client certificates of its nodes.
    pub(super) signing_cert_file: PathBuf,
    /// The key of this authority.
    pub(super) signing_key_file: PathBuf,
    /// The authority that signs the serving certificates of its nodes.
    pub(super) kubelet_serving_cert_file: Option<PathBuf>,
    /// The key of that authority.
    pub(super) kubelet_serving_key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    clusters: Vec<Cluster>,
}

/// Reads the file. Paths in it are relative to its folder.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn read(path: &Path) -> Result<Vec<Cluster>, String> {
    let named = |why: String| format!("{}: {why}", path.display());
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let document: Document = serde_saphyr::from_str(&text).map_err(|error| named(error.to_string()))?;
    if document.clusters.is_empty() {
        return Err(named("clusters is empty".to_owned()));
    }
    let mut names = BTreeSet::new();
    let mut clusters = document.clusters;
    for cluster in &mut clusters {
        let name = cluster.name.clone().unwrap_or_default();
        if !is_dns_label(&name) {
            return Err(named(format!("clusters: the name {name:?} must be a DNS label")));
        }
        if cluster.kubeconfig.is_none() {
            return Err(named(format!("cluster {name}: kubeconfig is missing")));
        }
        if !names.insert(name.clone()) {
            return Err(named(format!("cluster {name}: it is there twice")));
        }
        let own = [&mut cluster.config, &mut cluster.signing_cert_file, &mut cluster.signing_key_file];
        let more = [
            &mut cluster.kubeconfig,
            &mut cluster.kubelet_serving_cert_file,
            &mut cluster.kubelet_serving_key_file,
        ];
        for file in own.into_iter().chain(more.into_iter().flatten()) {
            *file = path.parent().unwrap_or(Path::new("")).join(&*file);
        }
    }
    Ok(clusters)
}
