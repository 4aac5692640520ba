//! What the cluster says at the moment of a decision. Who calls reads it, past every cache (NB-55).

use std::net::IpAddr;

use super::grants::Grants;
use super::limits::Limits;
use super::names::Cidr;
use super::node::Node;
use super::object::{Machine, MachinePool};
use crate::time::Instant;

/// What the cluster says. Where something could not be read the reason stands instead; that is never a yes.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    /// The time.
    pub now: Instant,
    /// All Machines.
    pub machines: Result<&'a [Machine], &'a str>,
    /// All pools of machines.
    pub pools: &'a [MachinePool],
    /// The Node that the request is for; nothing when there is none.
    pub node: Result<Option<&'a Node>, &'a str>,
    /// Whether the authority of bootstrap certificates is published (NB-86).
    pub has_bootstrap_ca: bool,
    /// The certificate with which the kubelet answers now (NB-110).
    pub current: Current<'a>,
    /// The network of the cluster (NB-119).
    pub network: Network<'a>,
    /// Which requests are beyond the limits.
    pub limits: &'a Limits,
    /// What was approved before.
    pub grants: &'a Grants,
    /// DNS names of the API server, which no node may have (NB-107).
    pub api_server_names: &'a [String],
}

/// The certificate with which a kubelet answers now.
#[derive(Clone, Copy, Debug)]
pub enum Current<'a> {
    /// The leaf. Its chain was verified against the authority of kubelets, and its names against the dialled host.
    Verified(&'a Leaf),
    /// There is none to go by, and why.
    Unavailable(&'a str),
}

/// A certificate that a kubelet presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The common name.
    pub common_name: String,
    /// The first moment at which it is valid.
    pub not_before: Instant,
    /// The last moment at which it is valid.
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

/// The kind of a cluster's network, as far as the approver cares (NB-119).
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// Not `OpenShiftSDN`.
    Other,
    /// `OpenShiftSDN`, and the node's host subnet where it has one.
    OpenShiftSdn(Option<&'a HostSubnet>),
    /// It could not be read, and why.
    Unknown(&'a str),
}

/// The addresses with which a node's pods leave the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSubnet {
    /// Single addresses.
    pub egress_ips: Vec<IpAddr>,
    /// Ranges.
    pub egress_cidrs: Vec<Cidr>,
}
