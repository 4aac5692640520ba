//! The flags of the background controllers. Names are those of kube-controller-manager.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_policy::approval::Signer;
use portcullis_server::controller::selection::Selection;
use portcullis_server::controller::settings::ControllerSettings;
use portcullis_server::signing::{Pair, Signing};

use crate::failure::Failure;
use crate::limit_flags::duration;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers and certificates")]
pub struct ControllerFlags {
    /// The controllers to enable, comma separated: names, * for all others, -NAME to disable one
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,

    /// How long a kubelet may be silent before its node counts as unreachable
    #[arg(long, value_name = "TIME", default_value = "50s", value_parser = duration)]
    node_monitor_grace_period: Duration,

    /// How often a node that is not ready is looked at again
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    node_monitor_period: Duration,

    /// How long a kubelet that was never heard of may be silent
    #[arg(long, value_name = "TIME", default_value = "1m0s", value_parser = duration)]
    node_startup_grace_period: Duration,

    /// How many pods that have ended are kept; the oldest of more are deleted. 0 keeps all
    #[arg(long, value_name = "COUNT", default_value_t = 12_500)]
    terminated_pod_gc_threshold: usize,

    /// How often what quotas limit is counted again, in case something was missed
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = duration)]
    resource_quota_sync_period: Duration,

    /// How long events are kept after their last write; 0s keeps them for ever
    #[arg(long, value_name = "TIME", default_value = "1h0m0s", value_parser = duration)]
    event_ttl: Duration,

    /// The CA certificate, in PEM, that signs for all signers; without any of these files it is the server's own
    #[arg(long, value_name = "FILE")]
    cluster_signing_cert_file: Option<PathBuf>,

    /// The key of --cluster-signing-cert-file
    #[arg(long, value_name = "FILE")]
    cluster_signing_key_file: Option<PathBuf>,

    /// The authority that signs for kubernetes.io/kubelet-serving
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_serving_key_file: Option<PathBuf>,

    /// The authority that signs for kubernetes.io/kube-apiserver-client-kubelet
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_client_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_client_key_file: Option<PathBuf>,

    /// The authority that signs for kubernetes.io/kube-apiserver-client
    #[arg(long, value_name = "FILE")]
    cluster_signing_kube_apiserver_client_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE")]
    cluster_signing_kube_apiserver_client_key_file: Option<PathBuf>,

    /// The authority that signs for kubernetes.io/legacy-unknown
    #[arg(long, value_name = "FILE")]
    cluster_signing_legacy_unknown_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE")]
    cluster_signing_legacy_unknown_key_file: Option<PathBuf>,

    /// The maximum lifetime of signed certificates; requests may ask for less
    #[arg(long, value_name = "TIME", default_value = "8760h", value_parser = duration)]
    pub cluster_signing_duration: Duration,
}

impl ControllerFlags {
    /// Returns the enabled controllers.
    ///
    /// # Errors
    /// A controller is unknown.
    pub fn selection(&self) -> Result<Selection, Failure> {
        Selection::parse(self.controllers.iter().map(String::as_str))
            .map_err(|error| Failure::input(format_args!("--controllers: {error}")))
    }

    /// Returns the numbers that the controllers follow.
    ///
    /// # Errors
    /// A period is zero.
    pub fn settings(&self) -> Result<ControllerSettings, Failure> {
        for (flag, period) in [
            ("node-monitor-grace-period", self.node_monitor_grace_period),
            ("node-monitor-period", self.node_monitor_period),
            ("node-startup-grace-period", self.node_startup_grace_period),
            ("resource-quota-sync-period", self.resource_quota_sync_period),
        ] {
            if period.is_zero() {
                return Err(Failure::input(format_args!("--{flag} must be longer than nothing")));
            }
        }
        Ok(ControllerSettings {
            node_monitor_grace_period: self.node_monitor_grace_period,
            node_monitor_period: self.node_monitor_period,
            node_startup_grace_period: self.node_startup_grace_period,
            terminated_pod_gc_threshold: self.terminated_pod_gc_threshold,
            resource_quota_sync_period: self.resource_quota_sync_period,
            event_ttl: self.event_ttl,
            ..ControllerSettings::default()
        })
    }

    /// Returns the certificate authorities of the signers (CS-71); none without flags that name any.
    ///
    /// # Errors
    /// Files are invalid, or the flags are inconsistent.
    pub fn signing(&self) -> Result<Option<Signing>, Failure> {
        let longest = self.cluster_signing_duration;
        if longest.is_zero() {
            return Err(Failure::input("--cluster-signing-duration must be at least 10m"));
        }
        let all = pair("", &self.cluster_signing_cert_file, &self.cluster_signing_key_file)?;
        let single = [
            (
                Signer::KubeletServing,
                "kubelet-serving-",
                &self.cluster_signing_kubelet_serving_cert_file,
                &self.cluster_signing_kubelet_serving_key_file,
            ),
            (
                Signer::KubeApiserverClientKubelet,
                "kubelet-client-",
                &self.cluster_signing_kubelet_client_cert_file,
                &self.cluster_signing_kubelet_client_key_file,
            ),
            (
                Signer::KubeApiserverClient,
                "kube-apiserver-client-",
                &self.cluster_signing_kube_apiserver_client_cert_file,
                &self.cluster_signing_kube_apiserver_client_key_file,
            ),
            (
                Signer::LegacyUnknown,
                "legacy-unknown-",
                &self.cluster_signing_legacy_unknown_cert_file,
                &self.cluster_signing_legacy_unknown_key_file,
            ),
        ];
        let mut pairs = Vec::new();
        for (signer, flag, certificate, key) in single {
            pairs.extend(pair(flag, certificate, key)?.map(|pair| (signer, pair)));
        }
        let signing = match (all, pairs.is_empty()) {
            (Some(_), false) => {
                return Err(Failure::input(
                    "--cluster-signing-cert-file and the files of single signers are mutually exclusive",
                ));
            }
            (Some(pair), true) => Signing::by_one_pair(pair, longest),
            (None, false) => Signing::by_pairs(pairs, longest),
            (None, true) => return Ok(None),
        };
        signing.map(Some).map_err(Failure::input)
    }
}

fn pair(of: &str, certificate: &Option<PathBuf>, key: &Option<PathBuf>) -> Result<Option<Pair>, Failure> {
    let missing = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            return Ok(Some(Pair { certificate: certificate.clone(), key: key.clone() }));
        }
        (None, None) => return Ok(None),
        (Some(_), None) => "key",
        (None, Some(_)) => "cert",
    };
    Err(Failure::input(format_args!(
        "--cluster-signing-{of}{missing}-file is missing: set both flags, or neither"
    )))
}
