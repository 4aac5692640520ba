//! Allocates cluster IPs and node ports for services. What is free follows from the stored services, so nothing needs to be
//! released.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use portcullis_apimachinery::field_error::FieldError;
use serde_json::{Value, json};

use super::families::{fill_in, stays_preferred};
use super::ranges::ServiceRanges;
use super::spec::{
    EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_headless, needs_health_port, needs_node_ports,
};
use crate::Map;
use crate::fields::Errors;
use crate::fields::Members;
use crate::resource::Refusal;
use crate::resources::addresses;

/// Allocates the IP families, addresses and node ports of a service. Call it after `prepare_create` or `prepare_update`
/// and before validation, also for a dry run. `old` is the stored service.
///
/// # Errors
/// [`Refusal`]; nothing of the service is stored then.
pub fn allocate(service: &mut Map, old: Option<&Map>, pool: &mut FreePool<'_>) -> Result<(), Refusal> {
    fill_in(service, old, &pool.families()).map_err(Refusal::Invalid)?;
    let Some(spec) = service.object_or_new("spec") else { return Ok(()) };
    let old = old.map(|old| old.object("spec"));
    allocate_addresses(spec, old, pool)?;
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
    Refusal::Invalid(Errors::from([FieldError::invalid(field, value.to_string(), detail)]))
}

/// An update keeps its addresses; it gets another one for a family that it adds.
fn allocate_addresses(spec: &mut Map, old: Option<&Map>, pool: &mut FreePool<'_>) -> Result<(), Refusal> {
    let needs_addresses = |spec: &Map| spec.text("type") != EXTERNAL_NAME && !is_headless(spec);
    if !needs_addresses(spec) {
        return Ok(());
    }
    let kept = match old {
        Some(old) if stays_preferred(spec, old) => return Ok(()),
        Some(old) if old.text("type") != EXTERNAL_NAME => old.list("ipFamilies").len(),
        _ => 0,
    };
    let wanted: Vec<&str> = spec.texts("clusterIPs").collect();
    let mut given: Vec<String> = wanted.iter().take(kept).map(|&ip| ip.to_owned()).collect();
    let mut further = wanted.into_iter().skip(kept);
    for family in spec.texts("ipFamilies").skip(kept) {
        let ip = further.next().unwrap_or_default();
        given.push(match addresses::parse(ip) {
            Some(address) => pool.take_address(family, address).map(|()| ip.to_owned()).map_err(|why| {
                invalid("spec.clusterIPs", ip, format!("failed to allocate IP {ip}: {why}"))
            })?,
            None => pool
                .any_address(family)
                .map(|address| address.to_string())
                .map_err(|why| Refusal::Internal(format!("failed to allocate a serviceIP: {why}")))?,
        });
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
fn allocate_ports(spec: &mut Map, pool: &mut FreePool<'_>) -> Result<(), Refusal> {
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
            (None, None) => pool.any_port().map_err(no_port)?,
        };
        given.entry(number_).or_insert(node_port);
        port.insert("nodePort".to_owned(), Value::from(node_port));
    }
    Ok(())
}

/// Only ports that the old service did not have are allocated.
fn update_ports(spec: &mut Map, old: &Map, pool: &mut FreePool<'_>) -> Result<(), Refusal> {
    if !needs_node_ports(spec) {
        return Ok(());
    }
    let takes_all = takes_node_ports(spec);
    let had: HashSet<i64> = old.objects("ports").map(|port| port.number("nodePort")).collect();
    let mut taken: HashSet<i64> = HashSet::new();
    let mut seen: HashSet<(String, i64)> = HashSet::new();
    for (i, port) in ports_mut(spec) {
        let mut node_port = port.number("nodePort");
        match node_port {
            0 if !takes_all => continue,
            0 => {
                node_port = pool.any_port().map_err(no_port)?;
                port.insert("nodePort".to_owned(), Value::from(node_port));
            }
            _ if had.contains(&node_port) || taken.contains(&node_port) => {}
            _ => drop(taken.insert(take(pool, i, node_port)?)),
        }
        let pair = (port.text("protocol").to_owned(), node_port);
        if !seen.insert(pair) {
            return Err(Refusal::Internal(format!("duplicate nodePort: {node_port}")));
        }
    }
    Ok(())
}

fn ports_mut(spec: &mut Map) -> impl Iterator<Item = (usize, &mut Map)> {
    spec.objects_mut("ports").enumerate()
}

fn take(pool: &mut FreePool<'_>, i: usize, port: i64) -> Result<i64, Refusal> {
    let taken = pool.take_port(port).map(|()| port);
    taken.map_err(|why| invalid(format!("spec.ports[{i}].nodePort"), port, why))
}

fn no_port(why: &str) -> Refusal {
    Refusal::Internal(format!("failed to allocate a nodePort: {why}"))
}

fn allocate_health_port(spec: &mut Map, pool: &mut FreePool<'_>) -> Result<(), Refusal> {
    let port = match spec.number("healthCheckNodePort") {
        0 => pool.any_port().map_err(str::to_owned),
        wanted => pool.take_port(wanted).map(|()| wanted),
    };
    let port =
        port.map_err(|why| Refusal::Internal(format!("failed to allocate a HealthCheck NodePort: {why}")))?;
    spec.insert("healthCheckNodePort".to_owned(), Value::from(port));
    Ok(())
}

/// The free addresses and node ports of a cluster, given the existing services.
#[derive(Clone, Debug)]
pub struct FreePool<'a> {
    ranges: &'a ServiceRanges,
    /// The addresses that services have.
    addresses: HashSet<IpAddr>,
    /// The node ports that services have.
    ports: HashSet<i64>,
}

impl<'a> FreePool<'a> {
    /// Creates the pool of these ranges, without what the services have.
    pub fn of<'s>(ranges: &'a ServiceRanges, services: impl Iterator<Item = &'s Map>) -> Self {
        let mut pool = Self { ranges, addresses: HashSet::new(), ports: HashSet::new() };
        for service in services {
            let spec = service.object("spec");
            pool.addresses.extend(spec.texts("clusterIPs").filter_map(addresses::parse));
            let ports = spec.objects("ports").map(|port| port.number("nodePort"));
            pool.ports.extend(ports.chain([spec.number("healthCheckNodePort")]));
        }
        pool
    }

    /// The families that the cluster has, its default first.
    fn families(&self) -> Vec<&'static str> {
        self.ranges.addresses.iter().map(|range| range.family()).collect()
    }

    fn take_address(&mut self, family: &str, address: IpAddr) -> Result<(), &'static str> {
        match self.ranges.addresses.of_family(family) {
            Some(range) if range.has(address) => {}
            _ => return Err("the provided IP is not in the valid range"),
        }
        if self.addresses.insert(address) { Ok(()) } else { Err("provided IP is already allocated") }
    }

    fn any_address(&mut self, family: &str) -> Result<IpAddr, &'static str> {
        let range = self.ranges.addresses.of_family(family).ok_or("the family is not configured")?;
        let free =
            range.in_order().find(|address| !self.addresses.contains(address)).ok_or("range is full")?;
        self.addresses.insert(free);
        Ok(free)
    }

    fn take_port(&mut self, port: i64) -> Result<(), String> {
        let ports = &self.ranges.ports;
        if !ports.has(port) {
            let detail = "provided port is not in the valid range. The range of valid ports is";
            return Err(format!("{detail} {ports}"));
        }
        if self.ports.insert(port) { Ok(()) } else { Err("provided port is already allocated".to_owned()) }
    }

    fn any_port(&mut self) -> Result<i64, &'static str> {
        let free = self.ranges.ports.iter().find(|port| !self.ports.contains(port)).ok_or("range is full")?;
        self.ports.insert(free);
        Ok(free)
    }
}
