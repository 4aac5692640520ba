//! What `serve` is told from outside. Names follow the flags of kube-apiserver.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use kinds::resource::Resource;
use kinds::resources::{self, rbac};
use portcullis_kinds as kinds;

use crate::go;

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where keys and certificates are kept (`--data-dir`).
    pub data_dir: PathBuf,
    /// Where to listen (`--bind-address`).
    pub bind_address: IpAddr,
    /// The port (`--secure-port`); 0 for any free one.
    pub secure_port: u16,
    /// Old API versions that are switched on (`--runtime-config`).
    pub runtime_config: RuntimeConfig,
    /// What one client may take up.
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

/// A duration as flags give it: numbers with units, such as `30s` or `1m30s`, not negative.
pub fn parse_duration(text: &str) -> Option<Duration> {
    go::duration(text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).map(Duration::from_nanos)
}

/// What one client may take up, in time and space.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time, over all clients. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// From the first byte to the end of the TLS handshake.
    pub handshake: Duration,
    /// For the whole head of a request, from when the server is ready for it.
    pub header_read: Duration,
    /// For the whole body of a request.
    pub body_read: Duration,
    /// For a request as a whole, unless it is a watch (`--request-timeout`).
    pub request: Duration,
    /// Requests that only read, at one time, over all clients; 0 for no limit (`--max-requests-inflight`).
    pub read_only_in_flight: usize,
    /// The others (`--max-mutating-requests-inflight`).
    pub mutating_in_flight: usize,
    /// How long a connection may stay open without a request.
    pub idle: Duration,
    /// How long requests under way may go on once the server is told to stop.
    pub shutdown: Duration,
    /// How often a watch that asked for bookmarks gets one. As in kube-apiserver, which calls it a minute.
    pub bookmarks: Duration,
    /// The largest body of a request. Bytes; as in kube-apiserver.
    pub body_bytes: usize,
    /// The largest head of a request. Bytes.
    pub head_bytes: usize,
    /// Requests at one time on one HTTP/2 connection (`--http2-max-streams-per-connection`).
    pub streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(32),
            body_read: Duration::from_secs(60),
            request: Duration::from_secs(60),
            read_only_in_flight: 400,
            mutating_in_flight: 200,
            idle: Duration::from_secs(90),
            shutdown: Duration::from_secs(10),
            bookmarks: Duration::from_secs(60),
            body_bytes: 3 * 1024 * 1024,
            head_bytes: 128 * 1024,
            streams: 1000,
        }
    }
}

/// API versions that are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// `authorization.k8s.io/v1beta1`, which Kubernetes no longer serves (WH-121).
    pub authorization_v1beta1: bool,
    /// `rbac.authorization.k8s.io/v1alpha1`, which Kubernetes served from 1.3 to 1.21 (RB-120).
    pub rbac_v1alpha1: bool,
    /// `rbac.authorization.k8s.io/v1beta1`, which Kubernetes served from 1.6 to 1.21 (RB-120).
    pub rbac_v1beta1: bool,
}

/// What can be switched.
const SWITCHES: [&str; 3] = [
    "authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "rbac.authorization.k8s.io/v1beta1",
];

/// A `--runtime-config` that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeConfigError {
    /// Not an API version that can be switched.
    #[error(
        "--runtime-config: {0} is not an API version that can be switched on or off here (known: {known})",
        known = SWITCHES.join(", ")
    )]
    Unknown(String),
    /// Neither `true` nor `false`.
    #[error("--runtime-config: {0}={1}: expected true or false")]
    Value(String, String),
}

impl RuntimeConfig {
    /// Reads the value of `--runtime-config`: `group/version=true`, several with commas between. A name alone means
    /// `true`, as in kube-apiserver.
    ///
    /// # Errors
    /// See [`RuntimeConfigError`].
    pub fn parse(text: &str) -> Result<Self, RuntimeConfigError> {
        let mut config = Self::default();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let (name, value) = entry.split_once('=').unwrap_or((entry, "true"));
            let on = match value {
                "true" | "" => true,
                "false" => false,
                _ => return Err(RuntimeConfigError::Value(name.to_owned(), value.to_owned())),
            };
            match name {
                "authorization.k8s.io/v1beta1" => config.authorization_v1beta1 = on,
                "rbac.authorization.k8s.io/v1alpha1" => config.rbac_v1alpha1 = on,
                "rbac.authorization.k8s.io/v1beta1" => config.rbac_v1beta1 = on,
                _ => return Err(RuntimeConfigError::Unknown(name.to_owned())),
            }
        }
        Ok(config)
    }

    /// Every kind that is stored, in each version that it is served in; first as it is stored.
    pub fn resources(self) -> impl Iterator<Item = &'static Resource> {
        let old = |versions: &'static [Resource; 4], on: bool| versions.iter().filter(move |_| on);
        resources::ALL
            .iter()
            .copied()
            .chain(old(&rbac::old::V1BETA1, self.rbac_v1beta1))
            .chain(old(&rbac::old::V1ALPHA1, self.rbac_v1alpha1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_off_until_switched_on() {
        assert!(!RuntimeConfig::parse("").unwrap().authorization_v1beta1);
        assert!(RuntimeConfig::parse("authorization.k8s.io/v1beta1").unwrap().authorization_v1beta1);
        assert!(RuntimeConfig::parse("authorization.k8s.io/v1beta1=true").unwrap().authorization_v1beta1);
        assert!(!RuntimeConfig::parse("authorization.k8s.io/v1beta1=false").unwrap().authorization_v1beta1);
        assert!(RuntimeConfig::parse("authorization.k8s.io/v1beta1=maybe").is_err());
        assert!(RuntimeConfig::parse("batch/v2alpha1=true").is_err());
        let all = RuntimeConfig::parse(&SWITCHES.join(",")).unwrap();
        assert!(all.authorization_v1beta1 && all.rbac_v1alpha1 && all.rbac_v1beta1);
    }

    #[test]
    fn only_what_is_on_is_served() {
        let versions = |text: &str| -> Vec<&str> {
            let config = RuntimeConfig::parse(text).unwrap();
            config.resources().filter(|kind| kind.plural == "roles").map(|kind| kind.version).collect()
        };
        assert_eq!(versions(""), ["v1"]);
        assert_eq!(versions("rbac.authorization.k8s.io/v1alpha1"), ["v1", "v1alpha1"]);
        assert_eq!(versions("rbac.authorization.k8s.io/v1beta1=true"), ["v1", "v1beta1"]);
    }
}
