//! Allocates cluster IPs and node ports for services. The caller provides the pool, which is derived from the stored
//! services, so nothing needs to be released.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::families::{fill_in, stays_preferred};
use super::spec::{
    EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_headless, needs_health_port, needs_node_ports,
};
use crate::Map;
use crate::fields::Members;
use crate::resource::Refusal;
use crate::resources::addresses;

/// The free addresses and ports.
pub trait Pool {
    /// Allocates an address: the requested one, or any.
    ///
    /// # Errors
    /// The reason of the failure.
    fn address(&mut self, wanted: Option<IpAddr>) -> Result<IpAddr, String>;

    /// Allocates a node port: the requested one, or any.
    ///
    /// # Errors
    /// The reason of the failure.
    fn port(&mut self, wanted: Option<i64>) -> Result<i64, String>;
}

/// Allocates the IP families, addresses and node ports of a service. Call it after `prepare_create` or `prepare_update`
/// and before validation, also for a dry run. `old` is the stored service.
///
/// # Errors
/// [`Refusal`]; nothing of the service is stored then.
pub fn allocate(service: &mut Map, old: Option<&Map>, pool: &mut dyn Pool) -> Result<(), Refusal> {
    fill_in(service, old).map_err(Refusal::Invalid)?;
    let Some(spec) = service.object_or_new("spec") else { return Ok(()) };
    let old = old.map(|old| old.object("spec"));
    if old.is_none_or(|old| old.text("type") == EXTERNAL_NAME && !stays_preferred(spec, old)) {
        allocate_addresses(spec, pool)?;
    }
    match old {
        None => allocate_ports(spec, pool)?,
        Some(old) => update_ports(spec, old, pool)?,
    }
    if needs_health_port(spec) && !old.is_some_and(needs_health_port) {
        allocate_health_port(spec, pool)?;
    }
    Ok(())
}

fn invalid(field: impl Into<String>, value: impl ToString, detail: String) -> Refusal {
    Refusal::Invalid(vec![FieldError::invalid(field, value.to_string(), detail)])
}

fn allocate_addresses(spec: &mut Map, pool: &mut dyn Pool) -> Result<(), Refusal> {
    if spec.text("type") == EXTERNAL_NAME || is_headless(spec) {
        return Ok(());
    }
    let wanted: Vec<&str> = spec.texts("clusterIPs").collect();
    let count = spec.list("ipFamilies").len();
    let mut given = Vec::new();
    for ip in wanted.into_iter().chain(std::iter::repeat("")).take(count) {
        let address = match addresses::parse(ip) {
            Some(address) => pool.address(Some(address)).map(|_| ip.to_owned()).map_err(|why| {
                invalid("spec.clusterIPs", ip, format!("failed to allocate IP {ip}: {why}"))
            })?,
            None => pool
                .address(None)
                .map(|address| address.to_string())
                .map_err(|why| Refusal::Internal(format!("failed to allocate a serviceIP: {why}")))?,
        };
        given.push(address);
    }
    if let Some(first) = given.first() {
        spec.insert("clusterIP".to_owned(), json!(first));
        spec.insert("clusterIPs".to_owned(), json!(given));
    }
    Ok(())
}

/// Returns whether node ports are allocated for ports that have none.
fn takes_node_ports(spec: &Map) -> bool {
    match spec.text("type") {
        NODE_PORT => true,
        LOAD_BALANCER => spec.is_true("allocateLoadBalancerNodePorts"),
        _ => false,
    }
}

/// Ports with the same number (and different protocols) share a node port.
fn allocate_ports(spec: &mut Map, pool: &mut dyn Pool) -> Result<(), Refusal> {
    if !needs_node_ports(spec) {
        return Ok(());
    }
    let takes_all = takes_node_ports(spec);
    let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
    for port in spec.objects("ports").filter(|port| port.number("nodePort") != 0) {
        wanted.entry(port.number("port")).or_insert_with(|| port.number("nodePort"));
    }
    let mut given: BTreeMap<i64, i64> = BTreeMap::new();
    for (i, port) in ports_mut(spec) {
        let (number_, node_port) = (port.number("port"), port.number("nodePort"));
        if node_port == 0 && !takes_all {
            continue;
        }
        let node_port = match (given.get(&number_), wanted.get(&number_)) {
            (Some(&shared), _) if node_port == 0 || node_port == shared => shared,
            (Some(_), _) => take(pool, i, node_port)?,
            (None, Some(&wanted)) => take(pool, i, wanted)?,
            (None, None) => pool.port(None).map_err(no_port)?,
        };
        given.entry(number_).or_insert(node_port);
        port.insert("nodePort".to_owned(), Value::from(node_port));
    }
    Ok(())
}

/// Only ports that the old service did not have are allocated.
fn update_ports(spec: &mut Map, old: &Map, pool: &mut dyn Pool) -> Result<(), Refusal> {
    if !needs_node_ports(spec) {
        return Ok(());
    }
    let takes_all = takes_node_ports(spec);
    let had: Vec<i64> = old.objects("ports").map(|port| port.number("nodePort")).collect();
    let mut taken: Vec<i64> = Vec::new();
    let mut seen: Vec<(String, i64)> = Vec::new();
    for (i, port) in ports_mut(spec) {
        let mut node_port = port.number("nodePort");
        match node_port {
            0 if !takes_all => continue,
            0 => {
                node_port = pool.port(None).map_err(no_port)?;
                port.insert("nodePort".to_owned(), Value::from(node_port));
            }
            _ if had.contains(&node_port) || taken.contains(&node_port) => {}
            _ => taken.push(take(pool, i, node_port)?),
        }
        let pair = (port.text("protocol").to_owned(), node_port);
        if seen.contains(&pair) {
            return Err(Refusal::Internal(format!("duplicate nodePort: {node_port}")));
        }
        seen.push(pair);
    }
    Ok(())
}

fn ports_mut(spec: &mut Map) -> impl Iterator<Item = (usize, &mut Map)> {
    spec.objects_mut("ports").enumerate()
}

fn take(pool: &mut dyn Pool, i: usize, port: i64) -> Result<i64, Refusal> {
    pool.port(Some(port)).map_err(|why| invalid(format!("spec.ports[{i}].nodePort"), port, why))
}

fn no_port(why: String) -> Refusal {
    Refusal::Internal(format!("failed to allocate a nodePort: {why}"))
}

fn allocate_health_port(spec: &mut Map, pool: &mut dyn Pool) -> Result<(), Refusal> {
    let wanted = Some(spec.number("healthCheckNodePort")).filter(|port| *port != 0);
    let port = pool
        .port(wanted)
        .map_err(|why| Refusal::Internal(format!("failed to allocate a HealthCheck NodePort: {why}")))?;
    spec.insert("healthCheckNodePort".to_owned(), Value::from(port));
    Ok(())
}

/// The free addresses of an IPv4 range and the free node ports, given the existing services.
#[derive(Clone, Debug)]
pub struct FreePool {
    first: u32,
    count: u32,
    addresses: HashSet<IpAddr>,
    ports: HashSet<i64>,
}

impl FreePool {
    /// The network that Service IPs are allocated from, with its prefix length.
    pub const NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 0, 0, 0), 24);
    /// The range of node ports.
    pub const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

    /// Creates the pool of a range, such as `10.0.0.0` with a 24-bit prefix, without what these services use.
    pub fn of<'a>(network: Ipv4Addr, prefix: u32, services: impl Iterator<Item = &'a Map>) -> Self {
        let size = 1_u64 << 32_u32.saturating_sub(prefix);
        let mut pool = Self {
            first: network.to_bits(),
            // Excludes the network address and the broadcast address.
            count: u32::try_from(size.saturating_sub(2)).unwrap_or(u32::MAX),
            addresses: HashSet::new(),
            ports: HashSet::new(),
        };
        for service in services {
            let spec = service.object("spec");
            pool.addresses.extend(spec.texts("clusterIPs").filter_map(addresses::parse));
            let ports = spec.objects("ports").map(|port| port.number("nodePort"));
            pool.ports.extend(ports.chain([spec.number("healthCheckNodePort")]));
        }
        pool
    }

    /// The number of addresses at the start that are reserved for explicit requests.
    fn reserved(&self) -> u32 {
        match self.count {
            0..=16 => 0,
            count => (count / 16).clamp(16, 256),
        }
    }

    fn nth(&self, n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(self.first.saturating_add(n)))
    }
}

impl Pool for FreePool {
    fn address(&mut self, wanted: Option<IpAddr>) -> Result<IpAddr, String> {
        let reserved = self.reserved();
        let is_inside = |address: IpAddr| match address {
            IpAddr::V4(v4) => (1..=self.count).contains(&v4.to_bits().wrapping_sub(self.first)),
            IpAddr::V6(_) => false,
        };
        let address = match wanted {
            Some(address) if !is_inside(address) => {
                return Err("the provided IP is not in the valid range".to_owned());
            }
            Some(address) if self.addresses.contains(&address) => {
                return Err("provided IP is already allocated".to_owned());
            }
            Some(address) => address,
            None => (reserved + 1..=self.count)
                .chain(1..=reserved)
                .map(|n| self.nth(n))
                .find(|address| !self.addresses.contains(address))
                .ok_or("range is full")?,
        };
        self.addresses.insert(address);
        Ok(address)
    }

    fn port(&mut self, wanted: Option<i64>) -> Result<i64, String> {
        let port = match wanted {
            Some(port) if !Self::PORTS.contains(&port) => {
                return Err(
                    "provided port is not in the valid range. The range of valid ports is 30000-32767"
                        .to_owned(),
                );
            }
            Some(port) if self.ports.contains(&port) => {
                return Err("provided port is already allocated".to_owned());
            }
            Some(port) => port,
            None => Self::PORTS.into_iter().find(|port| !self.ports.contains(port)).ok_or("range is full")?,
        };
        self.ports.insert(port);
        Ok(port)
    }
}
