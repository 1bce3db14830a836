//! The decision: may these addresses be dialled?

use std::net::{IpAddr, SocketAddr, UdpSocket};

use url::Host;

use crate::class::{class_of, decisive};
use crate::policy::{EgressPolicy, Mode};
use crate::refusal::{AddressClass, Refusal};

/// More are not tried: an answer of 500 addresses is an attempt to make us scan.
const MAX_TRIED: usize = 8;

/// Addresses that may be dialled. Only vetting, or the operator's word on a proxy, makes one, and only the dialer takes one.
#[derive(Debug)]
pub(crate) struct Vetted(Vec<SocketAddr>);

impl Vetted {
    /// Vets all addresses of a host. One that is refused refuses the host, whichever it would have dialled: a mixed
    /// answer is how rebinding starts.
    pub(crate) fn of(
        host: &str,
        found: impl IntoIterator<Item = IpAddr>,
        port: u16,
        https: bool,
        policy: &EgressPolicy,
    ) -> Result<Self, Refusal> {
        let mut dialable = Vec::new();
        for address in found {
            let class = policy.classify(SocketAddr::new(address, port));
            match class {
                AddressClass::Loopback if policy.allow_loopback => {}
                AddressClass::Private if policy.allows_private(address) => {}
                AddressClass::Public if https => {}
                AddressClass::Public => return Err(Refusal::PlainHttp { host: host.to_owned() }),
                AddressClass::Private
                | AddressClass::Loopback
                | AddressClass::Metadata
                | AddressClass::LinkLocal
                | AddressClass::Special
                | AddressClass::Own
                | AddressClass::Denied => {
                    let may_be_allowed = class == AddressClass::Private && policy.mode == Mode::SelfHosted;
                    let allowable = may_be_allowed.then(|| decisive(address));
                    return Err(Refusal::Address { host: host.to_owned(), class, allowable });
                }
            }
            let address = SocketAddr::new(address, port);
            if !dialable.contains(&address) && dialable.len() < MAX_TRIED {
                dialable.push(address);
            }
        }
        Ok(Self(dialable))
    }

    /// The addresses of the operator's own proxy, which nobody else can name. They may well be private.
    pub(crate) fn of_proxy(found: impl IntoIterator<Item = IpAddr>, port: u16) -> Self {
        Self(found.into_iter().take(MAX_TRIED).map(|address| SocketAddr::new(address, port)).collect())
    }

    /// In the resolver's order; at most eight.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

impl EgressPolicy {
    /// Whether the operator denies a host, given without its final dot and in lower case.
    pub(crate) fn denies_name(&self, name: &str) -> bool {
        self.deny_hosts.iter().any(|denied| match denied.strip_prefix("*.") {
            Some(parent) => {
                name.strip_suffix(folded(parent).as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            None => folded(denied) == name,
        })
    }

    fn classify(&self, address: SocketAddr) -> AddressClass {
        let decisive = decisive(address.ip());
        let class = class_of(address.ip());
        if class == AddressClass::Metadata {
            return class;
        }
        if self.own_addresses.iter().any(|own| is_own(*own, decisive, address.port())) {
            return AddressClass::Own;
        }
        if self.deny_hosts.iter().any(|denied| folded(denied).parse() == Ok(decisive)) {
            return AddressClass::Denied;
        }
        class
    }

    fn allows_private(&self, address: IpAddr) -> bool {
        self.mode == Mode::SelfHosted && self.allow_cidrs.iter().any(|cidr| cidr.contains(&decisive(address)))
    }
}

/// A host as `url` would give it, so that operators may write it in any way that customers may.
fn folded(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    match Host::parse(host) {
        Ok(Host::Domain(name)) => name,
        Ok(Host::Ipv4(address)) => address.to_string(),
        Ok(Host::Ipv6(address)) => address.to_string(),
        // `Host` wants brackets around IPv6.
        Err(_) => {
            host.parse().map_or_else(|_| host.to_ascii_lowercase(), |address: IpAddr| address.to_string())
        }
    }
}

fn is_own(own: SocketAddr, address: IpAddr, port: u16) -> bool {
    if own.port() != port {
        return false;
    }
    decisive(own.ip()) == address || own.ip().is_unspecified() && is_of_this_machine(address)
}

/// The system binds a socket only to an address that an interface has. Nothing is sent.
fn is_of_this_machine(address: IpAddr) -> bool {
    class_of(address) == AddressClass::Loopback || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vet(addresses: &[&str], port: u16, policy: &EgressPolicy) -> Result<usize, Refusal> {
        let found = addresses.iter().map(|text| text.parse::<IpAddr>().unwrap());
        Vetted::of("host.example", found, port, true, policy).map(|vetted| vetted.addresses().len())
    }

    fn class(verdict: Result<usize, Refusal>) -> AddressClass {
        match verdict {
            Err(Refusal::Address { class, .. }) => class,
            other => panic!("{other:?}"),
        }
    }

    // proves: C-H11, C-H27
    #[test]
    fn one_bad_answer_spoils_all_and_eight_are_tried() {
        let policy = EgressPolicy::default();
        let many: Vec<String> = (0..250).map(|n| format!("93.184.216.{n}")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(vet(&many, 443, &policy), Ok(8));
        many.push("10.0.0.1");
        assert_eq!(class(vet(&many, 443, &policy)), AddressClass::Private, "also behind the eighth");
    }

    // proves: C-H24, C-H04
    #[test]
    fn a_range_opens_itself_and_nothing_else() {
        let wide: Vec<_> = ["0.0.0.0/0", "::/0"].iter().map(|cidr| cidr.parse().unwrap()).collect();
        let narrow = vec!["10.0.0.0/8".parse().unwrap()];
        let policy = |allow_cidrs| EgressPolicy { allow_cidrs, ..EgressPolicy::default() };

        assert_eq!(vet(&["10.1.2.3"], 443, &policy(narrow.clone())), Ok(1));
        assert_eq!(vet(&["::ffff:10.1.2.3"], 443, &policy(narrow.clone())), Ok(1));
        assert_eq!(class(vet(&["192.168.1.1"], 443, &policy(narrow.clone()))), AddressClass::Private);
        for (refused, kind) in [
            ("169.254.169.254", AddressClass::Metadata),
            ("100.100.100.200", AddressClass::Metadata),
            ("168.63.129.16", AddressClass::Metadata),
            ("192.0.0.192", AddressClass::Metadata),
            ("fd00:ec2::254", AddressClass::Metadata),
            ("64:ff9b::a9fe:a9fe", AddressClass::Metadata),
            ("169.254.1.1", AddressClass::LinkLocal),
            ("fe80::1", AddressClass::LinkLocal),
            ("127.0.0.1", AddressClass::Loopback),
            ("0.0.0.0", AddressClass::Special),
            ("224.0.0.1", AddressClass::Special),
        ] {
            assert_eq!(class(vet(&[refused], 443, &policy(wide.clone()))), kind, "{refused}");
        }
        let saas = EgressPolicy { mode: Mode::Saas, ..policy(narrow) };
        let refusal = vet(&["10.1.2.3"], 443, &saas).unwrap_err();
        assert_eq!(refusal.hint(), None, "a customer of ours is not the operator");
    }

    // proves: C-H23
    #[test]
    fn we_do_not_dial_ourselves() {
        let own_addresses = vec!["0.0.0.0:8443".parse().unwrap(), "10.0.0.5:5432".parse().unwrap()];
        let policy = EgressPolicy {
            own_addresses,
            allow_loopback: true,
            allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()],
            deny_hosts: vec!["Coreci.Example.COM".into(), "*.corp.example".into(), "93.184.216.34".into()],
            ..EgressPolicy::default()
        };
        assert_eq!(class(vet(&["127.0.0.1"], 8443, &policy)), AddressClass::Own);
        assert_eq!(class(vet(&["::1"], 8443, &policy)), AddressClass::Own);
        assert_eq!(class(vet(&["10.0.0.5"], 5432, &policy)), AddressClass::Own);
        assert_eq!(class(vet(&["::ffff:10.0.0.5"], 5432, &policy)), AddressClass::Own);
        assert_eq!(vet(&["10.0.0.5"], 443, &policy), Ok(1));
        assert_eq!(class(vet(&["93.184.216.34"], 443, &policy)), AddressClass::Denied);
        assert!(policy.denies_name("coreci.example.com"));
        assert!(policy.denies_name("a.corp.example") && policy.denies_name("a.b.corp.example"));
        assert!(!policy.denies_name("corp.example") && !policy.denies_name("xcorp.example"));
    }

    #[test]
    fn the_hint_is_the_line_to_add() {
        let refusal = vet(&["192.168.7.20"], 443, &EgressPolicy::default()).unwrap_err();
        assert_eq!(refusal.hint().as_deref(), Some(r#"allow_cidrs = ["192.168.7.20/32"]"#));
        assert!(!refusal.to_string().contains("192.168"), "the message tells what was typed only");
        let refusal = vet(&["fd12::7"], 443, &EgressPolicy::default()).unwrap_err();
        assert_eq!(refusal.hint().as_deref(), Some(r#"allow_cidrs = ["fd12::7/128"]"#));
    }
}
