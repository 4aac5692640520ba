//! The machine approver: which certificate requests of kubelets are approved (NB-50 to NB-127).
//!
//! A request is compared with what the cluster says about machines and nodes. Everything that is looked at comes as a
//! plain value, the time included; the answer is a [`Verdict`] with one reason and the number of the rule, and the list
//! of all checks in their order. Nothing here asks a server, writes, parses ASN.1 or dials a kubelet: who calls does.
//!
//! A request is approved only when every check was carried out and passed. What cannot be evaluated is never a yes.

mod check;
mod client;
mod cluster;
mod config;
mod egress;
mod grants;
mod intake;
mod limits;
mod names;
mod node;
mod object;
mod own_machine;
mod reason;
mod renewal;
mod request;
mod serving;

pub use check::{Check, CheckResult, Evaluation, Failure, Outcome, Verdict, evaluate};
pub use cluster::{Cluster, Current, HostSubnet, Leaf, Network};
pub use config::{
    Config, ConfigError, ConfigMapKey, DenyMode, ExtraNames, MachineApi, PendingLimit, ReadYaml,
    ServiceAccount, WindowOverride,
};
pub use grants::{Grant, Grants};
pub use intake::{Ignored, Intake, KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING, SignerPath, intake};
pub use limits::{Limits, Tripped};
pub use names::{Cidr, is_node_name};
pub use node::Node;
pub use object::{Address, AddressKind, Machine, MachineKind, MachinePool, Member, ObjectError, read};
pub use own_machine::{Match, lacking_internal_dns, of_cluster};
pub use reason::Reason;
pub use renewal::{DialTarget, dial_target};
pub use request::{APPROVED_REASON, Condition, Extension, Key, Pkcs10, Request};
