//! Who may come in: decided before a body is read, in this order: key, tenant, right, rate.
//!
//! Keys of ours are random and cannot be guessed, so whoever shows a good one comes in, even from an address from which somebody
//! else tries wrong ones. The `api_key` of the settings may have been thought up by a person: from such an address it is not
//! even looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::access::Access;
use super::error::ApiError;
use super::rights::{OPEN_ROUTES, asks_a_model, right_of};
use super::server::Peer;
use super::{App, identity, openai};
use crate::memory::{Roll, Shown};
use crate::scope::Tenant;
use crate::store::StoreError;
use crate::tenant::{Rate, Right};

/// Wrong keys that an address may show a minute.
const WRONG_KEYS: Rate = Rate::a_minute(20);

pub(super) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let roll = app.memory.tenants().roll().await;
    match app.let_in(&request, roll) {
        Ok(access) => {
            if let Some(access) = access {
                request.extensions_mut().insert(access);
            }
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

impl App {
    /// What a request may do; nothing to say where everybody may come in.
    fn let_in(&self, request: &Request, roll: Result<Arc<Roll>, StoreError>) -> Result<Option<Access>, ApiError> {
        if OPEN_ROUTES.contains(&request.uri().path()) {
            // Who cannot read the keys does not know whether there are any, and has nothing to hide here.
            let keyless = roll.is_ok_and(|roll| self.is_keyless(&roll)) && !self.owner;
            return if keyless { self.check_host(request).map(|()| None) } else { Ok(None) };
        }
        let roll = roll.map_err(unreadable)?;
        let access = self.open(request, &roll)?;
        let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let right = right_of(request.method().as_str(), route);
        access.check(right)?;
        if !self.owner {
            self.admit(request, right, &access.tenant)?;
        }
        Ok(Some(access))
    }

    /// Whether nobody has a key.
    fn is_keyless(&self, roll: &Roll) -> bool {
        self.doors.api_key.is_none() && !roll.has_keys()
    }

    /// What the key opens that a request shows, or that it needs none.
    fn open(&self, request: &Request, roll: &Roll) -> Result<Access, ApiError> {
        let keyless = self.is_keyless(roll);
        let shares = self.doors.rules.shares(keyless);
        let named = || self.named_tenant(request);
        if self.owner {
            return Ok(Access::everything(named()?, shares, !keyless));
        }
        if keyless {
            self.check_host(request)?;
            return Ok(Access::everything(named()?, shares, false));
        }
        let shown = shown_key(request.headers()).ok_or_else(|| {
            unauthorized("unauthorized", "send the key as `Authorization: Bearer …` or `x-api-key: …`")
        })?;
        let (address, now) = (self.client_address(request), self.memory.tenants().steady());
        let tolerated = self.doors.wrong_keys.look(&address, now).is_ok();
        if tolerated && self.is_api_key(shown) {
            return Ok(Access::everything(named()?, shares, true));
        }
        match roll.look_at(shown, self.clock().now()) {
            Shown::Good(key) => Access::of(*key, named()?, shares),
            Shown::Expired => Err(unauthorized("key_expired", "this key has expired; ask for a new one")),
            Shown::Revoked => Err(unauthorized("key_revoked", "this key was revoked; ask for a new one")),
            Shown::Unknown => {
                let counted = self.doors.wrong_keys.with(&address, WRONG_KEYS, now, |bucket| bucket.take(now));
                Err(counted.map_or_else(ApiError::too_many_keys, |()| unauthorized("unauthorized", "no such key")))
            }
        }
    }

    fn is_api_key(&self, shown: &str) -> bool {
        let key = self.doors.api_key.as_deref();
        key.is_some_and(|key| bool::from(shown.as_bytes().ct_eq(key.as_bytes())))
    }

    /// The tenant that a request names: in its path under `/v1` and before a visitor's session, in a header elsewhere.
    fn named_tenant(&self, request: &Request) -> Result<Option<Tenant>, ApiError> {
        let path = request.uri().path();
        if path.starts_with("/v1/") {
            return Ok(openai::tenant_in(request.method(), request.uri()));
        }
        match identity::path::visited_tenant(path) {
            Some(visited) => identity::check_tenant_header(request.headers(), &visited).map(|()| Some(visited)),
            None => identity::tenant_header(request.headers()),
        }
    }

    /// Whether a tenant may ask for more. What concerns the server as a whole is not counted.
    fn admit(&self, request: &Request, right: Right, tenant: &Tenant) -> Result<(), ApiError> {
        if right == Right::Admin {
            return Ok(());
        }
        let tenants = self.memory.tenants();
        tenants.admit_request(tenant)?;
        if asks_a_model(request.method(), request.uri().path()) {
            tenants.admit_question(tenant)?;
        }
        Ok(())
    }

    /// Without a key a web page could reach us under a name of its own (DNS rebinding), so the name must
    /// be ours. And whoever else can reach us needs a key.
    fn check_host(&self, request: &Request) -> Result<(), ApiError> {
        let listen = self.doors.listen.ip();
        if !listen.is_loopback() {
            return Err(unauthorized("unauthorized", "this server can be reached by others and has no keys yet"));
        }
        let header = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
        let host = header.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
        match host {
            Some(host) if is_ours(host_name(host), listen) => Ok(()),
            _ => Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "wrong_host",
                "Host not allowed",
                "without a key recalld answers only to localhost and its own address",
            )),
        }
    }

    /// Who asks: the one that connects, or whom the proxy in between names.
    fn client_address(&self, request: &Request) -> IpAddr {
        network(self.told_address(request))
    }

    fn told_address(&self, request: &Request) -> IpAddr {
        let told = self.doors.client_address_header.as_ref().and_then(|name| last_address(request.headers(), name));
        let peer = || request.extensions().get::<Peer>().map(|peer| peer.0);
        told.or_else(peer).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The address to whose share of memory a request counts; `None` for a trusted proxy that names no client.
    pub(super) fn counted_address(&self, request: &Request) -> Option<IpAddr> {
        let address = self.told_address(request);
        (!self.doors.trusted_proxies.contains(address)).then(|| network(address))
    }
}

fn unauthorized(code: &'static str, detail: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, code, "Unauthorized", detail)
}

fn unreadable(error: StoreError) -> ApiError {
    let detail = format!("the keys cannot be read at the moment: {error}");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "keys_unavailable", "Keys unavailable", detail)
}

/// The key that a request shows, whatever it is.
pub(super) fn shown_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer_token);
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()))
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Everybody before the last entry can write what they like; the last one is the proxy's.
fn last_address(headers: &HeaderMap, name: &HeaderName) -> Option<IpAddr> {
    let last = headers.get_all(name).iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next()?.trim().parse().ok()
}

/// Whoever has one address of version 6 has all of its network.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX))),
        },
        address => address,
    }
}

/// The name without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_ours(name: &str, listen: IpAddr) -> bool {
    let loopback_name = name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    loopback_name || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == listen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_answered_to() {
        let listen: IpAddr = [192, 168, 1, 5].into();
        for host in ["localhost", "localhost:7077", "127.0.0.1:7077", "[::1]:7077", "127.9.9.9", "192.168.1.5:80"] {
            assert!(is_ours(host_name(host), listen), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:7077", "10.0.0.1", "", "[::2]:1"] {
            assert!(!is_ours(host_name(host), listen), "{host}");
        }
    }

    #[test]
    fn a_bearer_is_read_in_any_case() {
        assert_eq!(bearer_token("Bearer abc"), Some("abc"));
        assert_eq!(bearer_token("bearer  abc"), Some("abc"));
        assert_eq!(bearer_token("Basic abc"), None);
    }

    #[test]
    fn an_address_stands_for_its_network() {
        let network = |text: &str| network(text.parse().expect("an address")).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn only_the_proxys_own_word_about_an_address_counts() {
        let name = HeaderName::from_static("x-forwarded-for");
        let mut headers = HeaderMap::new();
        assert_eq!(last_address(&headers, &name), None);
        headers.append(&name, "192.0.2.1, 192.0.2.2".parse().expect("a value"));
        assert_eq!(last_address(&headers, &name), Some([192, 0, 2, 2].into()));
        headers.append(&name, "192.0.2.3".parse().expect("a value"));
        assert_eq!(last_address(&headers, &name), Some([192, 0, 2, 3].into()));
    }
}
