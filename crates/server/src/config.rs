//! The configuration of `serve`. Names follow the flags of kube-apiserver.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::http::limits::Limits;
use crate::registry::runtime_config::RuntimeConfig;

/// The configuration of the server.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The directory of keys and certificates (`--data-dir`).
    pub data_dir: PathBuf,
    /// The address to listen on (`--bind-address`).
    pub bind_address: IpAddr,
    /// The port (`--secure-port`); 0 for any free one.
    pub secure_port: u16,
    /// The optional API versions that are enabled (`--runtime-config`).
    pub runtime_config: RuntimeConfig,
    /// The resource limits.
    pub limits: Limits,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./portcullis-data"),
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            secure_port: 6443,
            runtime_config: RuntimeConfig::default(),
            limits: Limits::default(),
        }
    }
}
