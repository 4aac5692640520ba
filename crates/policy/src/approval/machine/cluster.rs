//! The state of the cluster at the time of a decision. The caller reads it, bypassing every cache (NB-55).

use std::net::IpAddr;

use portcullis_apimachinery::time::Instant;

use super::grants::Grants;
use super::limits::Limits;
use super::names::Cidr;
use super::node::Node;
use super::object::{Machine, MachinePool};
use super::unreadable::Unreadable;

/// The state of the cluster. An item that could not be read is an error, which never approves a request.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    /// The time.
    pub now: Instant,
    /// All Machines.
    pub machines: Result<&'a [Machine], &'a str>,
    /// The Machines that exist but cannot be read.
    pub unreadable: &'a [Unreadable],
    /// All pools of machines.
    pub pools: &'a [MachinePool],
    /// The Node that the request is for; `None` if it does not exist.
    pub node: Result<Option<&'a Node>, &'a str>,
    /// Whether the CA of bootstrap certificates is published (NB-86).
    pub has_bootstrap_ca: bool,
    /// The certificate that the kubelet currently serves (NB-110).
    pub current: Current<'a>,
    /// The network of the cluster (NB-119).
    pub network: Network<'a>,
    /// The limits on pending requests.
    pub limits: &'a Limits,
    /// The earlier approvals.
    pub grants: &'a Grants,
    /// The DNS names of the API server, which no node may have (NB-107).
    pub api_server_names: &'a [String],
}

/// The certificate that a kubelet currently serves.
#[derive(Clone, Copy, Debug)]
pub enum Current<'a> {
    /// The leaf certificate. Its chain was verified against the kubelet CA, and its names against the dialled host.
    Verified(&'a Leaf),
    /// No verified certificate, and the reason.
    Unavailable(&'a str),
}

/// A certificate presented by a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The common name.
    pub common_name: String,
    /// The start of its validity.
    pub not_before: Instant,
    /// The end of its validity, inclusive.
    pub not_after: Instant,
    /// Its DNS names.
    pub dns: Vec<String>,
    /// Its e-mail addresses.
    pub email: Vec<String>,
    /// Its IP addresses.
    pub ip: Vec<IpAddr>,
    /// Its URIs.
    pub uri: Vec<String>,
}

/// The network type of the cluster, as far as it matters to the approver (NB-119).
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// Not `OpenShiftSDN`.
    Other,
    /// `OpenShiftSDN`, with the node's host subnet if it has one.
    OpenShiftSdn(Option<&'a HostSubnet>),
    /// The type could not be read, and the reason.
    Unknown(&'a str),
}

/// The egress addresses of a node's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSubnet {
    /// Single addresses.
    pub egress_ips: Vec<IpAddr>,
    /// Ranges.
    pub egress_cidrs: Vec<Cidr>,
}
