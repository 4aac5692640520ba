//! The ranges that services get their addresses and node ports from, as the flags `--service-cluster-ip-range` and
//! `--service-node-port-range` of kube-apiserver name them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// IPv4, as `ipFamilies` names it.
pub(super) const IPV4: &str = "IPv4";
/// IPv6, as `ipFamilies` names it.
pub(super) const IPV6: &str = "IPv6";

/// The name of the family of an address, as in `ipFamilies`.
pub(super) fn family_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// The ranges of a cluster. The default is that of kube-apiserver: `10.0.0.0/24` and `30000-32767`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRanges {
    /// The addresses.
    pub addresses: AddressRanges,
    /// The node ports.
    pub ports: PortRange,
}

/// A text does not name a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RangeError(String);

/// A range of addresses, such as `10.96.0.0/12`. It holds at least eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address of the range, which no service gets.
    network: IpAddr,
    /// The number of leading bits that all addresses of the range share.
    prefix: u32,
}

impl AddressRange {
    /// The number of trailing bits in which addresses of the smallest range differ.
    const FEWEST_BITS: u32 = 3;
    /// The same for the largest range. Nobody has more services.
    const MOST_BITS: u32 = 64;

    const fn bits(&self) -> u32 {
        let size = if self.network.is_ipv4() { 32 } else { 128 };
        size - self.prefix
    }

    /// The number of addresses that services can get: all but the first and, in IPv4, the last, which is the broadcast
    /// address.
    fn count(&self) -> u64 {
        let last = u64::MAX.checked_shr(64 - self.bits()).unwrap_or(u64::MAX);
        if self.network.is_ipv4() { last - 1 } else { last }
    }

    /// The number of addresses at the start that services get last, so that they are free for those who ask for a
    /// certain address.
    fn reserved(&self) -> u64 {
        match 1_u64.checked_shl(self.bits()).unwrap_or(u64::MAX) {
            0..=16 => 0,
            size => (size / 16).clamp(16, 256),
        }
    }

    /// The address at this distance from the start of the range.
    fn nth(&self, n: u64) -> IpAddr {
        match self.network {
            IpAddr::V4(v4) => {
                let n = u32::try_from(n).unwrap_or(u32::MAX);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits().saturating_add(n)))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits().saturating_add(u128::from(n)))),
        }
    }

    /// The first address that a service can have: that of the service `default/kubernetes`.
    pub fn first(&self) -> IpAddr {
        self.nth(1)
    }

    /// The family of the addresses, as in `ipFamilies`.
    pub fn family(&self) -> &'static str {
        family_of(self.network)
    }

    /// Returns whether a service can have this address.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        let distance = match (address, self.network) {
            (IpAddr::V4(address), IpAddr::V4(network)) => {
                u128::from(address.to_bits()).checked_sub(u128::from(network.to_bits()))
            }
            (IpAddr::V6(address), IpAddr::V6(network)) => address.to_bits().checked_sub(network.to_bits()),
            _ => None,
        };
        distance.is_some_and(|distance| (1..=u128::from(self.count())).contains(&distance))
    }

    /// The addresses in the order in which services get them.
    pub(super) fn in_order(self) -> impl Iterator<Item = IpAddr> {
        let reserved = self.reserved();
        (reserved + 1..=self.count()).chain(1..=reserved).map(move |n| self.nth(n))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    /// Reads a range. Bits behind the prefix are dropped, as kube-apiserver does.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let read = || {
            let (address, prefix) = text.split_once('/')?;
            let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
            Some((address.parse().ok()?, prefix.parse().ok().filter(|_| is_number)?))
        };
        let no_range = || {
            let what = "is not a range of addresses: write it like 10.96.0.0/12 or fd00:10:96::/112";
            RangeError(format!("{text:?} {what}"))
        };
        let (address, prefix): (IpAddr, u32) = read().ok_or_else(no_range)?;
        let size: u32 = if address.is_ipv4() { 32 } else { 128 };
        let bits = size.checked_sub(prefix).ok_or_else(no_range)?;
        if bits < Self::FEWEST_BITS {
            return Err(RangeError(format!("{text} is too small: it must have at least 8 addresses")));
        }
        if bits > Self::MOST_BITS {
            let least = size - Self::MOST_BITS;
            return Err(RangeError(format!("{text} is too large: the prefix must be at least /{least}")));
        }
        let network = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Ok(Self { network, prefix })
    }
}

/// The addresses of services: one range, or one of each family. The family of the first is the default of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRanges {
    first: AddressRange,
    second: Option<AddressRange>,
}

impl AddressRanges {
    /// The range of the cluster's default family.
    pub fn first(&self) -> AddressRange {
        self.first
    }

    /// The ranges, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = AddressRange> {
        std::iter::once(self.first).chain(self.second)
    }

    /// The range of a family.
    pub(super) fn of_family(&self, family: &str) -> Option<AddressRange> {
        self.iter().find(|range| range.family() == family)
    }
}

impl Default for AddressRanges {
    fn default() -> Self {
        let first = AddressRange { network: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix: 24 };
        Self { first, second: None }
    }
}

impl FromStr for AddressRanges {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let mut ranges = text.splitn(3, ',').map(|range| range.trim().parse::<AddressRange>());
        let first = match ranges.next() {
            Some(first) => first?,
            None => return Err(RangeError("a range of addresses is missing".to_owned())),
        };
        let second = ranges.next().transpose()?;
        if ranges.next().is_some() {
            return Err(RangeError("only one range for each of IPv4 and IPv6 is possible".to_owned()));
        }
        match second {
            Some(second) if second.family() == first.family() => {
                let family = first.family();
                Err(RangeError(format!(
                    "{first} and {second} are both {family}: one must be of the other family"
                )))
            }
            second => Ok(Self { first, second }),
        }
    }
}

/// The node ports of services, such as `30000-32767`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRange(RangeInclusive<u16>);

impl PortRange {
    /// Returns whether a service can have this node port.
    pub(super) fn has(&self, port: i64) -> bool {
        u16::try_from(port).is_ok_and(|port| self.0.contains(&port))
    }

    /// The ports, the lowest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = i64> {
        self.0.clone().map(i64::from)
    }
}

impl Default for PortRange {
    fn default() -> Self {
        Self(30_000..=32_767)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.start(), self.0.end())
    }
}

impl FromStr for PortRange {
    type Err = RangeError;

    /// Reads `first-last`, both inclusive, `first+count`, which ends at `first` plus `count`, or a single port.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let number = |text: &str| {
            let text = text.trim();
            text.parse::<u16>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let read = || {
            if let Some((first, last)) = text.split_once('-') {
                return Some((number(first)?, number(last)?));
            }
            if let Some((first, more)) = text.split_once('+') {
                return Some((number(first)?, number(first)?.checked_add(number(more)?)?));
            }
            Some((number(text)?, number(text)?))
        };
        match read() {
            Some((first, last)) if 0 < first && first <= last => Ok(Self(first..=last)),
            _ => Err(RangeError(format!("{text:?} is not a range of ports: write it like 30000-32767"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn services_get_addresses_inside_the_range_and_the_reserved_ones_last() {
        let all: Vec<IpAddr> = range("10.0.0.8/29").in_order().collect();
        assert_eq!(all, (9..=14).map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))).collect::<Vec<_>>());
        for (text, next, last) in [
            ("10.0.0.0/24", "10.0.0.17", "10.0.0.254"),
            ("10.96.0.0/12", "10.96.1.1", "10.111.255.254"),
            ("fd00::/112", "fd00::101", "fd00::ffff"),
            ("fd00::/64", "fd00::101", "fd00::ffff:ffff:ffff:ffff"),
            ("255.255.255.0/24", "255.255.255.17", "255.255.255.254"),
        ] {
            let range = range(text);
            assert_eq!(range.in_order().next(), Some(address(next)), "{text}");
            assert!(range.has(range.first()) && range.has(address(last)), "{text}");
            assert!(!range.has(range.network), "{text}");
        }
        assert!(!range("10.0.0.0/24").has(address("10.0.0.255")));
        assert!(!range("10.0.0.0/24").has(address("10.0.1.1")));
        assert!(!range("10.0.0.0/24").has(address("fd00::1")));
        assert!(!range("fd00::/112").has(address("fd00::1:0")));
    }

    #[test]
    fn a_cluster_has_one_range_of_each_family() {
        let both: AddressRanges = "10.96.0.0/12, fd00::/112".parse().unwrap();
        assert_eq!(
            both.iter().map(|range| range.to_string()).collect::<Vec<_>>(),
            ["10.96.0.0/12", "fd00::/112"]
        );
        assert_eq!("10.1.2.3/12".parse::<AddressRanges>().unwrap().first().to_string(), "10.0.0.0/12");
        for wrong in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/24,10.1.0.0/24",
            "10.0.0.0/30",
            "fd00::/63",
            "10.0.0.0/24,fd00::/112,10.1.0.0/24",
            "10.0.0.0/24,",
            "fd00::/126",
        ] {
            assert!(wrong.parse::<AddressRanges>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_are_written_as_first_and_last_or_first_and_count() {
        for (text, shown) in [("30000-32767", "30000-32767"), ("80+10", "80-90"), ("8080", "8080-8080")] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), shown);
        }
        for wrong in ["", "0-10", "10-9", "65536", "65000+1000", "80++5", "a-b", "-5"] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
    }
}
