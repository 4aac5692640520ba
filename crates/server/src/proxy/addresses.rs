//! Which addresses requests may be passed on to (NC-6, KA-85).
//!
//! A name is resolved once, every address that it stands for is checked, and one of the checked addresses is connected to (NC-7).
//!
//! DIVERGES: kube-apiserver checks the addresses of proxies only, not those of logs, exec, attach and port forwarding, and
//! resolves a name a second time when it connects. Here both are the same addresses. It also takes 0.0.0.0/8 for an address of
//! somebody else.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;

use policy::approval::machine::Cidr;

use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, QueueFull, Size};

/// How many names are resolved at a time. Each keeps a thread of the runtime busy until the system gives up, so a caller whose
/// names are never resolved must not take all of them. The callers limit the number of requests that wait.
const LOOKUPS: Size = Size { seats: 64, seats_of_account: 8, waiting_of_account: usize::MAX };
/// The most addresses of a name that are looked at; a name with more is refused.
const MOST: usize = 64;

/// The addresses of a name, once they are known.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names.
pub trait Resolve: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Resolves names as the system does.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).take(MOST + 1).collect())
        })
    }
}

/// A host that is not connected to. The first two messages are those of Kubernetes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    /// One of its addresses is not allowed.
    #[error("address not allowed")]
    NotAllowed,
    /// It has no address.
    #[error("no addresses for hostname")]
    None,
    /// Its name cannot be resolved.
    #[error("lookup {host}: {source}")]
    Lookup {
        /// Its name.
        host: String,
        /// Why.
        source: io::Error,
    },
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Addresses {
    resolver: Arc<dyn Resolve>,
    lookups: Arc<FairQueue>,
    allowed: Vec<Cidr>,
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Addresses").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Addresses {
    /// Addresses that anybody could have, and besides those in `allowed`.
    pub(crate) fn new(resolver: Arc<dyn Resolve>, allowed: Vec<Cidr>) -> Self {
        Self { resolver, lookups: FairQueue::new(LOOKUPS), allowed }
    }

    /// The addresses of a host, all of which may be connected to. Resolving its name is charged to the account.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub(crate) async fn of(&self, host: &str, account: Account) -> Result<Vec<IpAddr>, AddressError> {
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.resolved(host, account).await?,
        };
        match found.as_slice() {
            [] => Err(AddressError::None),
            found if found.len() <= MOST && found.iter().all(|address| self.allows(*address)) => {
                Ok(found.to_vec())
            }
            _ => Err(AddressError::NotAllowed),
        }
    }

    /// Keeps the seat until the lookup ends, also when the caller does not wait any more.
    async fn resolved(&self, host: &str, account: Account) -> Result<Vec<IpAddr>, AddressError> {
        let failed = |source| AddressError::Lookup { host: host.to_owned(), source };
        let seat = self.lookups.enter(account).await;
        let seat = seat.map_err(|QueueFull| failed(io::Error::other("too many lookups wait")))?;
        let (resolver, name) = (Arc::clone(&self.resolver), host.to_owned());
        let lookup = tokio::spawn(async move {
            let found = resolver.resolve(&name).await;
            drop(seat);
            found
        });
        lookup.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)
    }

    /// Whether an address may be connected to.
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        is_usual(address.to_canonical()) || self.allowed.iter().any(|range| range.contains(address))
    }
}

/// Whether an address could be that of any machine: global unicast, which includes private networks.
fn is_usual(address: IpAddr) -> bool {
    let is_special = address.is_loopback() || address.is_unspecified() || address.is_multicast();
    !is_special
        && match address {
            IpAddr::V4(v4) => !v4.is_link_local() && v4 != Ipv4Addr::BROADCAST && v4.octets()[0] != 0,
            IpAddr::V6(v6) => {
                // `::127.0.0.1`, in the form before that of mapped addresses.
                let is_compatible = v6.to_bits() >> 32 == 0;
                !v6.is_unicast_link_local() && !is_compatible
            }
        }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Fixed(Vec<IpAddr>);

    impl Resolve for Fixed {
        fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
            Box::pin(std::future::ready(Ok(self.0.clone())))
        }
    }

    fn addresses(of_name: &[&str], allowed: &[&str]) -> Addresses {
        let of_name = of_name.iter().map(|text| text.parse().unwrap()).collect();
        Addresses::new(Arc::new(Fixed(of_name)), allowed.iter().map(|text| text.parse().unwrap()).collect())
    }

    async fn said(addresses: &Addresses, host: &str) -> Result<Vec<IpAddr>, String> {
        addresses.of(host, Account::of_address(None)).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_addresses_that_any_machine_could_have_are_allowed_nc_6_ka_85() {
        let usual = addresses(&[], &[]);
        for address in ["192.0.2.1", "10.0.0.1", "172.16.0.1", "100.64.0.1", "2001:db8::1", "fd00::1"] {
            assert_eq!(said(&usual, address).await, Ok(vec![address.parse().unwrap()]));
        }
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "0.0.0.0",
            "0.0.0.1",
            "::",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert_eq!(said(&usual, address).await, Err("address not allowed".to_owned()), "{address}");
        }
        let allowed = addresses(&[], &["127.0.0.0/8"]);
        assert!(
            said(&allowed, "127.0.0.1").await.is_ok() && said(&allowed, "::ffff:127.0.0.1").await.is_ok()
        );
        assert!(said(&allowed, "::1").await.is_err() && said(&allowed, "169.254.0.1").await.is_err());
    }

    #[tokio::test]
    async fn every_address_of_a_name_must_be_allowed_nc_6() {
        let of = |found: &'static [&'static str]| async move { said(&addresses(found, &[]), "node-1").await };
        assert_eq!(of(&["192.0.2.1", "fd00::1"]).await.unwrap().len(), 2);
        assert_eq!(of(&["192.0.2.1", "127.0.0.1"]).await, Err("address not allowed".to_owned()));
        assert_eq!(of(&[]).await, Err("no addresses for hostname".to_owned()));
        let many: Vec<&str> = vec!["192.0.2.1"; MOST + 1];
        assert!(said(&addresses(&many, &[]), "node-1").await.is_err());
    }

    /// Never resolves `hangs`, as a name whose name server does not answer.
    struct Hanging;

    impl Resolve for Hanging {
        fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
            Box::pin(async move {
                match name {
                    "hangs" => std::future::pending().await,
                    _ => Ok(vec!["192.0.2.1".parse().unwrap()]),
                }
            })
        }
    }

    #[tokio::test]
    async fn a_caller_whose_names_are_never_resolved_delays_nobody_else() {
        let addresses = Addresses::new(Arc::new(Hanging), Vec::new());
        let [hostile, honest] = ["192.0.2.7", "192.0.2.8"].map(|ip| Account::of_address(ip.parse().ok()));
        for _ in 0..LOOKUPS.seats * 2 {
            let waiting = addresses.of("hangs", hostile);
            assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
        }
        assert!(addresses.of("answers", honest).await.is_ok());
        // The seats of lookups that nobody waits for are not free.
        let next = tokio::time::timeout(Duration::from_millis(1), addresses.of("answers", hostile)).await;
        assert!(next.is_err());
    }
}
