//! The flags for connections to kubelets. Names are kube-apiserver's where it has one.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_policy::approval::machine::Cidr;
use portcullis_server::KubeletSettings;

use crate::limit_flags::duration;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kubelets (logs, exec, attach, port-forward, proxy)")]
pub struct KubeletFlags {
    /// The client certificate that kubelets see, in PEM. Reloaded when it changes [default: one of the server's own authority,
    /// for the user kube-apiserver-kubelet-client]
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    kubelet_client_certificate: Option<PathBuf>,

    /// The key of --kubelet-client-certificate
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    kubelet_client_key: Option<PathBuf>,

    /// The authority of the serving certificates of kubelets, in PEM. Reloaded when it changes [default: the one that signs for
    /// kubernetes.io/kubelet-serving here]
    #[arg(long, value_name = "FILE", conflicts_with = "kubelet_insecure_tls")]
    kubelet_certificate_authority: Option<PathBuf>,

    /// Do not verify the certificates of kubelets, as kube-apiserver without --kubelet-certificate-authority
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    kubelet_insecure_tls: bool,

    /// The types of addresses of nodes, comma separated: the first type that a node has is connected to
    #[arg(
        long,
        value_name = "TYPES",
        value_delimiter = ',',
        default_value = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP"
    )]
    kubelet_preferred_address_types: Vec<String>,

    /// The port of kubelets whose nodes do not tell theirs
    #[arg(long, value_name = "PORT", default_value_t = 10250, value_parser = clap::value_parser!(u16).range(1..))]
    kubelet_port: u16,

    /// How long a connection to a kubelet may take to be made, such as 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = timeout)]
    kubelet_timeout: Duration,

    /// Addresses that nodes may have although they are loopback, link-local or other special addresses, comma separated, such as
    /// 127.0.0.0/8 for a cluster on one machine. Repeatable
    #[arg(long, value_name = "CIDRS", value_delimiter = ',')]
    kubelet_allowed_cidrs: Vec<Cidr>,

    /// Whether exec, attach and port forwarding over nodes/proxy need the right to create nodes/proxy, whatever the method
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    node_proxy_upgrade_requires_create: bool,
}

impl KubeletFlags {
    /// The settings for connections to kubelets.
    pub fn settings(&self) -> KubeletSettings {
        KubeletSettings {
            client: self.kubelet_client_certificate.clone().zip(self.kubelet_client_key.clone()),
            authority: self.kubelet_certificate_authority.clone(),
            is_insecure: self.kubelet_insecure_tls,
            address_types: self.kubelet_preferred_address_types.clone(),
            port: self.kubelet_port,
            timeout: self.kubelet_timeout,
            allowed: self.kubelet_allowed_cidrs.clone(),
            upgrade_creates: self.node_proxy_upgrade_requires_create,
            ..KubeletSettings::default()
        }
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than 0s".to_owned()),
        time => Ok(time),
    }
}
