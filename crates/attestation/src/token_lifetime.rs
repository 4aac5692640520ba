//! How long the bootstrap tokens of machines live (AT-141 to AT-144).
//!
//! Without attestation a token is worth a node's identity, so it ends as soon as it may. With attestation it is worth
//! nothing by itself (AT-145), so that of a pool lives as long as the pool. These are the rules alone: nothing here reads or
//! writes a Secret.

use std::time::{Duration, SystemTime};

/// The times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a token lives when it is created or extended.
    pub lifetime: Duration,
    /// How long the token of a Machine is extended at most, from the creation of the Machine (AT-144).
    pub longest: Duration,
}

impl Default for Times {
    /// Those of the bootstrap provider of the Cluster API, and a day.
    fn default() -> Self {
        Self { lifetime: Duration::from_secs(15 * 60), longest: Duration::from_secs(24 * 60 * 60) }
    }
}

/// Whose token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A Machine.
    Machine {
        /// When it was created.
        created: SystemTime,
        /// Whether its infrastructure is ready.
        has_infrastructure: bool,
        /// Whether it is ready: its kubelet has registered, and it has a provider ID.
        is_ready: bool,
    },
    /// A MachinePool.
    Pool,
}

/// What is known when it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whose token it is.
    pub owner: Owner,
    /// Whether the owner is being deleted.
    pub is_deleting: bool,
    /// Whether the owner or its cluster is paused.
    pub is_paused: bool,
    /// Whether the cluster attests its nodes.
    pub is_attested: bool,
    /// When the token expires; none if there is no token.
    pub expires: Option<SystemTime>,
    /// The time.
    pub now: SystemTime,
}

/// What to do with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Let it expire later, then.
    Extend(SystemTime),
    /// Create a new one that expires then, and render the bootstrap data again. The old one runs out.
    Rotate(SystemTime),
    /// Create one that expires then, and render the bootstrap data again: there is none (AT-143).
    Create(SystemTime),
    /// Delete it.
    Delete,
    /// Tell that the token is gone, and that no other can reach the machine (`BootstrapTokenLost`, AT-143).
    Lost,
    /// Tell that the machine did not join in time (`BootstrapTimedOut`, AT-144).
    TimedOut,
}

impl Times {
    /// How often to look at a token.
    pub fn interval(&self) -> Duration {
        self.lifetime / 3
    }

    /// Decides what to do with a token.
    pub fn decide(&self, facts: &Facts) -> Action {
        let Facts { owner, is_deleting, is_paused, is_attested, expires, now } = *facts;
        // What is paused is left alone; it is decided again afterwards.
        if is_paused {
            return Action::Nothing;
        }
        if is_deleting {
            return if expires.is_some() { Action::Delete } else { Action::Nothing };
        }
        let end = now.checked_add(self.lifetime).unwrap_or(now);
        let left = expires.map(|expires| expires.duration_since(now).unwrap_or_default());
        match (owner, left) {
            (Owner::Pool, None) => Action::Create(end),
            (Owner::Pool, Some(left)) if is_attested => self.extended(left, end),
            // Whoever read an old token must not be able to use it for long.
            (Owner::Pool, Some(left)) if left < self.lifetime / 2 => Action::Rotate(end),
            (Owner::Pool, Some(_)) => Action::Nothing,
            (Owner::Machine { created, has_infrastructure, is_ready }, left) => {
                let is_over = if is_attested { is_ready } else { is_ready || has_infrastructure };
                match left {
                    // The token is of no use any more, and is not left to others.
                    Some(_) if is_ready && is_attested => Action::Delete,
                    // It runs out by itself.
                    _ if is_over => Action::Nothing,
                    _ if now.duration_since(created).is_ok_and(|age| age > self.longest) => Action::TimedOut,
                    Some(left) => self.extended(left, end),
                    None if has_infrastructure => Action::Lost,
                    None => Action::Create(end),
                }
            }
        }
    }

    /// Extends a token of which less than five sixths are left.
    fn extended(&self, left: Duration, end: SystemTime) -> Action {
        if left < self.lifetime * 5 / 6 { Action::Extend(end) } else { Action::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: Times = Times { lifetime: Duration::from_secs(900), longest: Duration::from_secs(86_400) };

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
    }

    fn facts(owner: Owner, is_attested: bool, expires: Option<u64>, now: u64) -> Facts {
        let expires = expires.map(at);
        Facts { owner, is_deleting: false, is_paused: false, is_attested, expires, now: at(now) }
    }

    fn machine(has_infrastructure: bool, is_ready: bool) -> Owner {
        Owner::Machine { created: at(0), has_infrastructure, is_ready }
    }

    fn decide(owner: Owner, is_attested: bool, expires: Option<u64>, now: u64) -> Action {
        TIMES.decide(&facts(owner, is_attested, expires, now))
    }

    #[test]
    fn without_attestation_the_token_of_a_machine_ends_with_its_infrastructure_at_141() {
        let waiting = machine(false, false);
        assert_eq!(TIMES.interval(), Duration::from_secs(300));
        assert_eq!(decide(waiting, false, Some(900), 149), Action::Nothing);
        assert_eq!(decide(waiting, false, Some(900), 151), Action::Extend(at(1051)));
        // Not until the node is ready: an interrupted bootstrap could use it for any name.
        assert_eq!(decide(machine(true, false), false, Some(900), 800), Action::Nothing);
        assert_eq!(decide(machine(true, false), false, None, 2000), Action::Nothing);
    }

    #[test]
    fn without_attestation_the_token_of_a_pool_is_replaced_at_141() {
        assert_eq!(decide(Owner::Pool, false, Some(900), 449), Action::Nothing);
        assert_eq!(decide(Owner::Pool, false, Some(900), 451), Action::Rotate(at(1351)));
    }

    #[test]
    fn with_attestation_a_token_lives_until_the_machine_is_ready_or_as_long_as_the_pool_at_142() {
        assert_eq!(decide(machine(true, false), true, Some(900), 800), Action::Extend(at(1700)));
        assert_eq!(decide(machine(true, true), true, Some(900), 100), Action::Delete);
        assert_eq!(decide(machine(true, true), true, None, 100), Action::Nothing);
        assert_eq!(decide(Owner::Pool, true, Some(900), 451), Action::Extend(at(1351)));
        let deleting = Facts { is_deleting: true, ..facts(Owner::Pool, true, Some(900), 100) };
        assert_eq!(TIMES.decide(&deleting), Action::Delete);
    }

    #[test]
    fn a_token_that_is_missing_is_made_again_where_it_can_still_arrive_at_143() {
        for is_attested in [false, true] {
            assert_eq!(decide(Owner::Pool, is_attested, None, 0), Action::Create(at(900)));
            assert_eq!(decide(machine(false, false), is_attested, None, 0), Action::Create(at(900)));
        }
        // The machine was started with the token that is gone.
        assert_eq!(decide(machine(true, false), true, None, 0), Action::Lost);
        // Paused, or moved to another management cluster, and then decided on again.
        let paused = Facts { is_paused: true, ..facts(Owner::Pool, true, None, 0) };
        assert_eq!(TIMES.decide(&paused), Action::Nothing);
    }

    #[test]
    fn a_machine_that_does_not_join_in_a_day_is_given_up_at_144() {
        assert_eq!(decide(machine(false, false), true, Some(86_500), 86_400), Action::Extend(at(87_300)));
        assert_eq!(decide(machine(false, false), true, Some(86_500), 86_401), Action::TimedOut);
        assert_eq!(decide(machine(true, false), true, None, 90_000), Action::TimedOut);
    }

    proptest! {
        /// However often and whenever it is looked at, from the infrastructure on a token lives for one lifetime at most
        /// (AT-141); with attestation the token of a pool is never replaced (AT-142).
        #[test]
        fn tokens_end_or_stay_as_the_rules_say_at_141_at_142(
            looks in proptest::collection::vec(1_u64..400, 1..60),
            infrastructure_after in 0_u64..5_000,
        ) {
            let (mut now, mut expires, mut pool_expires) = (0, Some(900), Some(900));
            for step in looks {
                now += step;
                // The server deletes expired tokens.
                expires = expires.filter(|expires| *expires > now);
                pool_expires = pool_expires.filter(|expires| *expires > now);
                let owner = machine(now >= infrastructure_after, false);
                match decide(owner, false, expires, now) {
                    Action::Extend(until) | Action::Create(until) => {
                        expires = Some(until.duration_since(at(0)).unwrap().as_secs());
                    }
                    Action::Nothing | Action::TimedOut => {}
                    other => prop_assert!(false, "{other:?}"),
                }
                if now >= infrastructure_after + 900 {
                    prop_assert_eq!(expires.filter(|expires| *expires > now), None);
                }
                match decide(Owner::Pool, true, pool_expires, now) {
                    Action::Extend(until) => {
                        pool_expires = Some(until.duration_since(at(0)).unwrap().as_secs());
                    }
                    Action::Nothing => {}
                    other => prop_assert!(false, "{other:?}"),
                }
                prop_assert!(pool_expires.is_some());
            }
        }
    }
}
