//! Ports for programs that must know theirs before they start, and that keep them when they start again.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that the kernel gives to who asks for any: those come and go with every connection.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A TCP port of 127.0.0.1 that no other holder of a [`ReservedPort`] on this machine gets, until this is dropped.
/// Nobody listens on it when it is reserved. A program that reserves nothing may still take it.
#[derive(Debug)]
pub struct ReservedPort {
    port: u16,
    /// The UDP port of the same number. The kernel gives it to one process only, and takes it back when that ends.
    _lock: UdpSocket,
}

impl ReservedPort {
    /// Reserves a port.
    ///
    /// # Panics
    /// All are taken.
    #[expect(clippy::new_without_default, reason = "reserving a port is a side effect")]
    pub fn new() -> Self {
        static TRIED: AtomicU32 = AtomicU32::new(0);
        // Every process begins at another place, so that tests that run at the same time seldom meet.
        let start = std::process::id().wrapping_mul(7919);
        (0..COUNT)
            .find_map(|_| {
                let place = start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % u32::from(COUNT);
                Self::take(FIRST + u16::try_from(place).expect("less than the count"))
            })
            .expect("a port is free")
    }

    fn take(port: u16) -> Option<Self> {
        let lock = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        Some(Self { port, _lock: lock })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_given_once_until_it_is_dropped() {
        let first = ReservedPort::new();
        let number = first.number();
        assert!(ReservedPort::take(number).is_none());
        assert_ne!(ReservedPort::new().number(), number);
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_given() {
        let reserved = ReservedPort::new();
        let number = reserved.number();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        drop(reserved);
        assert!(ReservedPort::take(number).is_none());
    }
}
