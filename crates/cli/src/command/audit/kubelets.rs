//! The settings of kubelets, from the first that speaks for a node (AU-14): a flag, files beside the state, a ConfigMap.

use std::collections::BTreeMap;

use portcullis_policy::audit::findings::Kubelets;
use portcullis_policy::audit::state::{KubeletSettings, State};
use portcullis_server::state::{KubeletFile, KubeletForm, yaml_to_json};
use serde_json::Value;

use crate::failure::Failure;

/// Reads the settings: `named` are `NODE=FILE`, `files` those beside the state.
///
/// # Errors
/// A file cannot be read, or is no configuration of a kubelet.
pub(super) fn read(named: &[String], files: &[KubeletFile], state: &State) -> Result<Kubelets, Failure> {
    let mut kubelets = Kubelets::default();
    for named in named {
        let Some((node, path)) = named.split_once('=').filter(|(node, _)| !node.is_empty()) else {
            return Err(Failure::input(format_args!("--kubelet-config {named:?}: must be NODE=FILE")));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::input(format_args!("cannot read {path}: {error}")))?;
        let settings = settings(&text).map_err(|why| Failure::input(format_args!("{path}: {why}")))?;
        kubelets.nodes.insert(node.to_owned(), settings);
    }
    let mut of_files = BTreeMap::<&str, KubeletSettings>::new();
    for file in files.iter().filter(|file| file.form == KubeletForm::Configuration) {
        let settings = settings(&file.text)
            .map_err(|why| Failure::input(format_args!("{}: {why}", file.path.display())))?;
        of_files.insert(&file.node, settings);
    }
    for file in files.iter().filter(|file| file.form == KubeletForm::Flags) {
        // Flags win over the file; without a file the defaults are those of the first releases.
        of_files.entry(&file.node).or_insert_with(KubeletSettings::historic).set_flags(&file.text);
    }
    for (node, settings) in of_files {
        kubelets.nodes.entry(node.to_owned()).or_insert(settings);
    }
    for (name, text) in state.kubelet_config_maps() {
        let settings = settings(text).map_err(|why| {
            Failure::input(format_args!("ConfigMap kube-system/{name}: data.kubelet: {why}"))
        })?;
        kubelets.config_maps.insert(name.clone(), settings);
    }
    Ok(kubelets)
}

/// Reads the configuration of a kubelet in YAML or JSON.
fn settings(text: &str) -> Result<KubeletSettings, String> {
    let json = yaml_to_json(text).map_err(|error| error.to_string())?;
    let document: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    KubeletSettings::of(&document)
}
