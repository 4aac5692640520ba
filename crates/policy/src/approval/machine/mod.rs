//! The machine approver: which certificate requests of kubelets are approved (NB-50 to NB-127).
//!
//! A request is checked against the machines and nodes of the cluster. All inputs are plain values, the time included.
//! The result is a [`Verdict`] with one reason and the rule number, and the ordered list of all checks. This module
//! never calls a server, writes, parses ASN.1 or dials a kubelet; the caller does.
//!
//! A request is approved only if every check was evaluated and passed. A check that cannot be evaluated never approves.

mod candidates;
mod check;
mod client;
mod cluster;
mod config;
mod counting;
mod grants;
mod intake;
mod limits;
mod names;
mod node;
mod object;
mod own_machine;
mod question;
mod reason;
mod renewal;
mod request;
mod result;
mod rivals;
mod serving;
mod unreadable;

pub use candidates::{lacking_internal_dns, of_cluster};
pub use check::evaluate;
pub use cluster::{Cluster, Current, HostSubnet, Leaf, Network};
pub use config::{
    Config, ConfigError, ConfigMapKey, DenyMode, ExtraNames, MachineApi, PendingLimit, ReadYaml,
    ServiceAccount, WindowOverride,
};
pub use grants::{Grant, Grants};
pub use intake::{Ignored, Intake, KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING, SignerPath, intake};
pub use limits::{Known, Limits, Tripped};
pub use names::Cidr;
pub use node::Node;
pub use object::{Address, AddressKind, Machine, MachineKind, MachinePool, Member, ObjectError, read};
pub use own_machine::{Match, named};
pub use reason::{Outcome, Reason};
pub use renewal::{DialTarget, dial_target};
pub use request::{APPROVED_REASON, Condition, Extension, Key, Pkcs10, Request};
pub use result::{Check, CheckResult, Evaluation, Failure, Verdict};
pub use unreadable::Unreadable;
