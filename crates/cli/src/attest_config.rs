//! The configuration of the attestation controller: read from a file with the files that it names, and read again when
//! one of them changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_attestation::config::{Config, Machines};
use portcullis_attestation::inventory::{Inventory, InventoryFile};
use portcullis_client::attest::{AttestController, Settings};
use portcullis_policy::approval::machine::{Config as MachineConfig, MachineApi, MachineKind};

/// The interval at which the files are checked for changes.
const INTERVAL: Duration = Duration::from_secs(2);

/// The variable without which the attestor for tests is refused (AT-7).
#[cfg(feature = "null-attestor")]
const ALLOW_NULL: &str = "PORTCULLIS_ALLOW_EVERY_MACHINE_TO_JOIN";

/// Reads a configuration, and the files that it names.
///
/// # Errors
/// Which file or field is invalid, and why.
pub(crate) fn read_settings(path: &Path) -> Result<Settings, String> {
    let config: Config = yaml(path)?;
    let named = |error: String| format!("{}: {error}", path.display());
    let read = |file: &str| {
        let file = beside(path, file);
        std::fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    };
    let rules = config.rules(read).map_err(named)?;
    #[cfg(feature = "null-attestor")]
    if rules.providers.contains_key("null") && std::env::var(ALLOW_NULL).as_deref() != Ok("true") {
        return Err(named(format!("the attestor null lets every machine in; set {ALLOW_NULL}=true")));
    }
    let inventory = match &config.machines.inventory {
        Some(file) => {
            let file = beside(path, file);
            let document: InventoryFile = yaml(&file)?;
            Inventory::new(document).map_err(|error| format!("{}: {error}", file.display()))?
        }
        None => Inventory::default(),
    };
    let machine_apis = machine_apis(&config.machines).map_err(named)?;
    if config.machines.inventory.is_none() && machine_apis.is_none() {
        return Err(named("machines: name an inventory or apis, else no machine is known".to_owned()));
    }
    Ok(Settings { rules, inventory, machine_apis, config })
}

fn machine_apis(machines: &Machines) -> Result<Option<MachineConfig>, String> {
    if machines.apis.is_empty() {
        return Ok(None);
    }
    let known = |group: &str| MachineKind::ALL.iter().any(|kind| kind.group() == group);
    if let Some(unknown) = machines.apis.iter().find(|group| !known(group)) {
        return Err(format!(
            "machines.apis: {unknown:?} is not a Machine API; expected cluster.x-k8s.io or machine.openshift.io"
        ));
    }
    let api = |group: &String| MachineApi { group: group.clone(), version: None };
    Ok(Some(MachineConfig {
        machine_apis: machines.apis.iter().map(api).collect(),
        machine_namespace: machines.namespace.clone(),
        cluster_name: machines.cluster_name.clone(),
        ..MachineConfig::default()
    }))
}

fn yaml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file that a configuration names, relative to its own folder.
fn beside(path: &Path, file: &str) -> PathBuf {
    path.parent().map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
}

/// Reads the configuration again when it, or a file that it names, changes. An invalid one is logged, and the last valid
/// one stays in force.
pub(crate) async fn follow(path: PathBuf, controller: AttestController) {
    let mut before = contents(&path).await;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = contents(&path).await;
        if now == before {
            continue;
        }
        before = now;
        match read_settings(&path) {
            Ok(settings) => {
                controller.reconfigure(settings);
                tracing::info!("the configuration was reloaded");
            }
            Err(why) => tracing::warn!(why, "ConfigInvalid: the last valid configuration remains in force"),
        }
    }
}

/// The configuration, and the files that it names.
async fn contents(path: &Path) -> Vec<Option<Vec<u8>>> {
    let own = tokio::fs::read(path).await.ok();
    let text = own.as_deref().and_then(|text| std::str::from_utf8(text).ok());
    let config: Option<Config> = text.and_then(|text| serde_saphyr::from_str(text).ok());
    let files = config.into_iter().flat_map(|config| {
        [config.machines.inventory, config.tpm.roots, config.tpm.intermediates].into_iter().flatten()
    });
    let mut contents = vec![own];
    for file in files {
        contents.push(tokio::fs::read(beside(path, &file)).await.ok());
    }
    contents
}
