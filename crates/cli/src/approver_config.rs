//! The configuration of the machine approver: read from a file, and read again when the file changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis_client::approver::Approver;
use portcullis_policy::approval::machine::{Config, MachineKind};

use crate::failure::Failure;

/// The interval at which the configuration is checked for changes.
const CONFIG_INTERVAL: Duration = Duration::from_secs(2);

/// NB-122: A server that only has the Machines may have those of many clusters.
pub(crate) fn check_cluster(config: &Config) -> Result<(), Failure> {
    let is_shared = config.machine_apis.iter().any(|api| api.group == MachineKind::ClusterV1Beta1.group());
    if is_shared && config.cluster_name.is_none() {
        return Err(Failure::input(
            "--management-kubeconfig with cluster.x-k8s.io in machineAPIs needs clusterName in --config: Machines of \
             another cluster must never match",
        ));
    }
    Ok(())
}

/// Reads a configuration.
pub(crate) fn read_config(path: &Path) -> Result<Config, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read --config {}: {error}", path.display()))?;
    let yaml = |text: &str| serde_saphyr::from_str(text).map_err(|error| error.to_string());
    Config::parse(&text, yaml).map_err(|error| format!("--config {}: {error}", path.display()))
}

/// Reloads the configuration when it changes. An invalid one is logged, and the last valid one stays in force (NB-140).
pub(crate) async fn follow(path: PathBuf, approver: Approver, is_managed_elsewhere: bool) {
    let mut before = tokio::fs::read(&path).await.unwrap_or_default();
    loop {
        tokio::time::sleep(CONFIG_INTERVAL).await;
        let Ok(now) = tokio::fs::read(&path).await else { continue };
        if now == before {
            continue;
        }
        before = now;
        let read = read_config(&path).and_then(|config| match is_managed_elsewhere {
            true => check_cluster(&config).map(|()| config).map_err(|failure| failure.to_string()),
            false => Ok(config),
        });
        match read {
            Ok(config) => {
                approver.reconfigure(config);
                tracing::info!("the configuration was reloaded");
            }
            Err(why) => tracing::warn!(why, "ConfigInvalid: the last valid configuration remains in force"),
        }
    }
}
