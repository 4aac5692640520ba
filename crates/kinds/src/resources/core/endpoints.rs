//! Endpoints: the addresses and ports of a service's pods.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::Map;
use crate::fields::{Errors, Members};
use crate::resource::Resource;
use crate::resources::addresses;
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::{dns_label, dns_subdomain, qualified_name};
use crate::resources::ports::{number_errors, protocol_errors};
use crate::schema;
use crate::table::{NONE, Row};

/// The row of Endpoints.
pub static ENDPOINTS: Resource = Resource {
    deprecation: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    kind: "Endpoints",
    plural: "endpoints",
    short_names: &["ep"],
    schema: &schema::core::service::ENDPOINTS,
    creates_on_update: true,
    default,
    validate_create: validate,
    validate_update: |endpoints, _| validate(endpoints),
    columns: &[NAME, text_column("Endpoints", "Where the service is answered, the first three."), AGE],
    row: |endpoints, now| {
        Row::of(vec![name(endpoints), Value::from(summary(endpoints)), age(endpoints, now)])
    },
    ..Resource::USUAL
};

/// The number of endpoints shown in the table.
const SHOWN: usize = 3;

fn default(endpoints: &mut Map) {
    for subset in endpoints.objects_mut("subsets") {
        subset.objects_mut("ports").for_each(|port| port.default_text("protocol", "TCP"));
    }
}

fn validate(endpoints: &Map) -> Errors {
    let mut errors = Errors::new();
    for (i, subset) in endpoints.objects("subsets").enumerate() {
        let field = format!("subsets[{i}]");
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            errors.push(FieldError::required(&field, "must specify `addresses` or `notReadyAddresses`"));
        }
        for member in ["addresses", "notReadyAddresses"] {
            for (j, address) in subset.objects(member).enumerate() {
                address_errors(&format!("{field}.{member}[{j}]"), address, &mut errors);
            }
        }
        let needs_name = subset.list("ports").len() > 1;
        for (j, port) in subset.objects("ports").enumerate() {
            port_errors(&format!("{field}.ports[{j}]"), port, needs_name, &mut errors);
        }
    }
    errors
}

fn address_errors(field: &str, address: &Map, errors: &mut Errors) {
    let (ip_field, ip) = (format!("{field}.ip"), address.text("ip"));
    errors.extend(addresses::errors(&ip_field, ip));
    let hostname = address.text("hostname");
    if !hostname.is_empty() {
        errors.extend(dns_label(&format!("{field}.hostname"), hostname));
    }
    if let Some(Value::String(node)) = address.get("nodeName") {
        errors.extend(dns_subdomain(&format!("{field}.nodeName"), node));
    }
    // A text that is not an address breaks both rules.
    errors.extend(addresses::special_errors(&ip_field, ip));
}

fn port_errors(field: &str, port: &Map, needs_name: bool, errors: &mut Errors) {
    let name_field = format!("{field}.name");
    errors.extend(match port.text("name") {
        "" if needs_name => Errors::from([FieldError::required(name_field, "")]),
        "" => Errors::new(),
        name => dns_label(&name_field, name),
    });
    errors.extend(number_errors(&format!("{field}.port"), port.number("port")));
    errors.extend(protocol_errors(&format!("{field}.protocol"), port.text("protocol")));
    if let Some(Value::String(protocol)) = port.get("appProtocol") {
        errors.extend(qualified_name(&format!("{field}.appProtocol"), protocol));
    }
}

/// The first few ready endpoints, and the number of others.
fn summary(endpoints: &Map) -> String {
    let subsets = endpoints.objects("subsets");
    if subsets.len() == 0 {
        return NONE.to_owned();
    }
    // There is one for each address and port, of which only those that are shown are made.
    let (mut shown, mut count) = (Vec::new(), 0_usize);
    for subset in subsets {
        let ips = subset.objects("addresses").map(|address| address.text("ip"));
        let ports = subset.list("ports").len();
        count = count.saturating_add(ips.len().saturating_mul(ports.max(1)));
        let left = SHOWN.saturating_sub(shown.len());
        if ports == 0 {
            shown.extend(ips.clone().take(left).map(str::to_owned));
        }
        let ports = subset.objects("ports").take(left).map(|port| port.number("port"));
        let all = ports.flat_map(|port| {
            ips.clone().take(left).map(move |ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            })
        });
        shown.extend(all.take(left));
    }
    match count.saturating_sub(SHOWN) {
        0 => shown.join(","),
        more => format!("{} + {more} more...", shown.join(",")),
    }
}
