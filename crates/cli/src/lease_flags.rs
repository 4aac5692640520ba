//! The flags of leader election, under the names of the controllers of Kubernetes: `--leader-elect`.

use std::time::{Duration, SystemTime};

use clap::{ArgAction, Args};
use portcullis_client::Connection;
use portcullis_client::lease::LeaseConfig;

use crate::limit_flags::duration;

/// See the module.
///
/// DIVERGES: NB-57 has the times of cluster-machine-approver, by which the nodes of a cluster that grows wait for up to three
/// minutes after a leader was killed.
#[derive(Args, Clone, Debug)]
pub struct LeaseFlags {
    /// Be active only while holding a Lease, so that several replicas can run
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, default_value = "true",
        default_missing_value = "true", require_equals = true
    )]
    pub(crate) leader_elect: bool,

    /// How long other replicas wait for a leader that does not renew
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = duration)]
    leader_elect_lease_duration: Duration,

    /// How long a leader tries to renew before it stops
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,

    /// The interval between attempts
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,

    /// The name of the Lease [default: that of the command, such as portcullis-approver]
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,

    /// The namespace of the Lease [default: that of the kubeconfig or the pod]
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
}

impl LeaseFlags {
    /// The lease of a command, by this name unless a flag says otherwise.
    pub(crate) fn lease(&self, name: &str, connection: &Connection) -> LeaseConfig {
        LeaseConfig {
            namespace: self.leader_elect_resource_namespace.clone().unwrap_or_else(|| connection.namespace()),
            name: self.leader_elect_resource_name.clone().unwrap_or_else(|| name.to_owned()),
            identity: identity(),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            release_on_exit: true,
        }
    }
}

/// The identity of this process among those that contend for a lease.
pub(crate) fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{host}_{}_{started:x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: LeaseFlags,
    }

    #[test]
    fn by_default_another_replica_takes_over_within_twenty_seconds_of_a_kill_nb_57() {
        let flags = Line::try_parse_from(["approve"]).unwrap().flags;
        let lease = LeaseConfig {
            namespace: "n".to_owned(),
            name: "l".to_owned(),
            identity: "i".to_owned(),
            lease_duration: flags.leader_elect_lease_duration,
            renew_deadline: flags.leader_elect_renew_deadline,
            retry_period: flags.leader_elect_retry_period,
            release_on_exit: true,
        };
        assert_eq!(lease.check(), Ok(()));
        // The rest is for the first lists.
        assert!(lease.longest_takeover() <= Duration::from_secs(17), "{:?}", lease.longest_takeover());
    }
}
