//! Faults, drawn by a generator with a seed, one after the other.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use portcullis_testkit::etcd;
use portcullis_testkit::mutate::Random;

use super::servers::Servers;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL of a server, which is started again.
    ServerKilled,
    /// SIGSTOP of a server, and SIGCONT.
    ServerStopped,
    /// Of members of etcd.
    Etcd(etcd::Fault),
    /// No byte passes between a server and etcd for longer than memory may be used without confirmation (ET-35).
    CutOff,
    /// The same for a shorter time, in which etcd is compacted: the server misses changes that nobody can tell it.
    CutOffAndCompacted,
    /// No byte passes between a server and one member of etcd.
    OneLinkCut,
    /// etcd does what a server asks for, and its answers are lost.
    AnswersLost,
    /// The connections between a server and etcd are reset.
    ConnectionsReset,
    /// etcd is compacted to its newest revision.
    Compacted,
}

const ALL: [Fault; 12] = [
    Fault::ServerKilled,
    Fault::ServerStopped,
    Fault::Etcd(etcd::Fault::ALL[0]),
    Fault::Etcd(etcd::Fault::ALL[1]),
    Fault::Etcd(etcd::Fault::ALL[2]),
    Fault::Etcd(etcd::Fault::ALL[3]),
    Fault::CutOff,
    Fault::CutOffAndCompacted,
    Fault::OneLinkCut,
    Fault::AnswersLost,
    Fault::ConnectionsReset,
    Fault::Compacted,
];

/// From this number of faults on, some stops are long.
const LONG_RUN: usize = 100;

impl Fault {
    /// Whether a server may have lost its history, so that watches there must begin anew.
    pub(crate) fn may_end_history(self) -> bool {
        matches!(self, Self::ServerKilled | Self::CutOffAndCompacted | Self::Compacted)
    }

    /// How long the fault lasts, when it is the fault of this number in a run.
    fn lasts(self, number: usize, is_long_run: bool, random: &mut Random) -> Duration {
        let up_to = |random: &mut Random, milliseconds: usize| random.below(milliseconds) as u64;
        Duration::from_millis(match self {
            Self::CutOff => 5_500 + up_to(random, 1_500),
            Self::ServerStopped | Self::OneLinkCut | Self::Etcd(_) if is_long_run && number % 50 == 7 => {
                30_000
            }
            Self::ServerStopped | Self::OneLinkCut | Self::Etcd(_) if is_long_run && number % 4 == 1 => {
                5_000 + up_to(random, 3_000)
            }
            _ => 200 + up_to(random, 1_500),
        })
    }

    fn happen(self, servers: &Servers, random: &mut Random, lasts: Duration) {
        let server = &servers.each[random.below(2)];
        let member = random.below(3);
        match self {
            Self::ServerKilled => {
                server.kill();
                sleep(lasts);
                server.restart();
            }
            Self::ServerStopped => {
                server.stop();
                sleep(lasts);
                server.cont();
            }
            Self::Etcd(fault) => servers.cluster.suffer(fault, member, lasts),
            Self::CutOff => {
                server.cut_off();
                sleep(lasts);
                server.heal();
            }
            Self::CutOffAndCompacted => {
                server.cut_off();
                sleep(lasts);
                servers.compact();
                // What is held in the network would arrive otherwise.
                server.reset();
                server.heal();
            }
            Self::OneLinkCut => {
                server.link(member).cut();
                sleep(lasts);
                server.link(member).heal();
            }
            Self::AnswersLost => {
                server.hold_answers();
                sleep(lasts);
                server.reset();
                server.heal();
            }
            Self::ConnectionsReset => server.reset(),
            Self::Compacted => servers.compact(),
        }
        servers.wait_until_ready();
    }
}

/// Makes this many faults, each kind as often as the others, as long as `goes_on` says so. Returns how many of each kind there
/// were. `is_disturbed` is told when something begins to be wrong, and when all is well again.
pub(crate) fn disturb(
    servers: &Servers,
    (faults, seed): (usize, u64),
    mut goes_on: impl FnMut() -> bool,
    mut is_disturbed: impl FnMut(bool),
) -> BTreeMap<Fault, usize> {
    let mut random = Random::new(seed);
    let (mut made, mut next) = (BTreeMap::new(), Vec::new());
    for number in 0..faults {
        if next.is_empty() {
            next = ALL.to_vec();
            // In another order each time.
            for last in (1..next.len()).rev() {
                next.swap(last, random.below(last + 1));
            }
        }
        let fault = next.pop().unwrap();
        let lasts = fault.lasts(number, faults >= LONG_RUN, &mut random);
        println!("{number}: {fault:?} for {lasts:?}");
        is_disturbed(true);
        fault.happen(servers, &mut random, lasts);
        is_disturbed(false);
        *made.entry(fault).or_default() += 1;
        sleep(Duration::from_millis(300));
        if !goes_on() {
            break;
        }
    }
    made
}
