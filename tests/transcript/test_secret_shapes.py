"""Secrets that are known by where they stand or by what they look like, and what is none."""

from __future__ import annotations

import time

import pytest

from codex_acp.transcript.secrets import REDACTED, scrub

SECRET = "Zq7Hj2Lk9Pw4Xv8T"

SHAPES = [
    "mysql -uroot -p{} db",
    "mysqldump --password={} db",
    "/usr/bin/mysql -h h -p'{}' db",
    '["mysql","-p{}","db"]',
    "docker exec -it db mysql -p{}",
    "curl -u user:{} https://h",
    "curl -uuser:{} x",
    '["curl", "-u", "user:{}"]',
    "PGPASSWORD={} psql",
    "sshpass -p {} ssh me@h",
    "sshpass -p'{}' ssh",
    "sshpass -p{} ssh",
    '["sshpass", "-p", "{}", "ssh"]',
    "docker login -u me -p {} ghcr.io",
    "redis-cli -h x -a {} ping",
    "Authorization: Bearer {}",
    "AUTHORIZATION: {}",
    "HTTP_AUTHORIZATION={}",
    "('authorization', 'Bearer {}')",
    "b'authorization': b'Bearer {}'",
    "Proxy-Authorization: Basic {}",
    "machine h.example login me password {}",
    "machine h.example\n  login me\n  password {}\n",
    "default login me password {}",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n{}\n-----END PGP PRIVATE KEY BLOCK-----",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{}",
    "postgres://user:{}@h/db",
    "postgres://user:p@ss/{}@h/db",
    "Server=h;Password={};Database=x",
    "Server=h;User Id=sa;Password=my {} word;Database=x",
    "Data Source=h;Pwd={}",
    "//registry.npmjs.org/:_authToken={}",
    "_auth={}",
    "[pypi]\nusername = __token__\npassword = {}",
    "password = {}",
    "aws_secret_access_key = {}",
    "AWS Secret Access Key: {}",
    "AccountKey={}==;EndpointSuffix=x",
    "SharedAccessSignature=sig={}",
    '{"name": "API_KEY", "value": "{}"}',
    "{'name': 'Authorization', 'value': '{}'}",
    "<password>{}</password>",
    "the password is {}",
    "password was '{}'",
    "ldapsearch -D cn=x -w {} -b y",
    "sqlcmd -S h -U sa -P {}",
    "openssl enc -aes-256-cbc -pass pass:{} -in x",
    "smbclient //h/s -U me%{}",
    "unzip -P {} a.zip",
    "mongodump -u me -p {}",
    "http -a me:{} GET h",
    "mytool --api-key {}",
    '["mytool", "--token", "{}"]',
    "keytool -storepass {}",
    "hvs.CAESI{}abcd",
    "ya29.a0Af{}",
    "GOCSPX-{}",
    "SG.{}.{}",
    "xapp-1-{}",
    "glptt-{}abcd",
    "dckr_pat_{}abcd",
    "abc8Q~{}abcdefghijklmnopqr",
    "eyJhbGciOi.{}.x",
    "ops_eyJhbGciOi.{}",
    "https://h/cb#access_token={}",
    "https://mega.nz/file/a#{}",
    "root:$6$salt${}{}:1",
    "123456789:AA{}{}",
    "az login -u me -p {}",
    "helm registry login -u me -p {} h",
    "redis-cli -a '{}'",
    "wget --http-password {} x",
    "git clone https://{}@github.com/x",
    "?sig={}",
    "url?token={}",
]
"""``{}`` is where the secret stands."""

PLAIN = [
    "mysql -u root -p db",
    "docker run -p 8080:80 --name x img",
    "mkdir -p a/b",
    "cp -pr a b",
    "redis-cli -h h ping",
    "the password is invalid",
    "the password is required, the token was refused",
    "password is base64-encoded",
    "see https://h.example/page#prerequisites, and https://h/x#addEventListener.",
    "https://h/a.md#L10 and https://h/#/route/to",
    "tar -pxzf a.tar",
    "login and password needed",
    "machine learning is fun",
    "default password handling",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "token count is 3",
    "npm_config_user_agent_of_the_package",
    "global-configuration-of-something",
    "glorious-things-of-thee-are-spoken",
    "https://h.example:8080/a@b",
    "thread 0199a1b2-c3d4-7000-8000-123456789abc",
    "git@github.com:me/x.git",
    "ssh me@h -p 2222",
    "sort -k 2 -u f",
    "--api-key <token> and <path> must",
    "login -p",
    "the authorization failed",
    "basic authorization, cookie and all",
    "python -m http.server -b x",
    "net use",
    "zip -r a b",
    " item/agentMessage/delta, 123 bytes",
    "mysql.server: -p",
    "/srv/Projects/VeryLongName/With/MixedCase2/And/So/On/Until/Sixty/Chars",
    "https://github.com/o/r/issues/1#issuecomment-1234567890",
]

HOSTILE = [
    "a", " ", "\n", "- ", "-----BEGIN ", "--token ", "-u a", "authorization", "bearer ", "Basic ",
    "://", "://a:b@", "://a:b", "://a#b", "?a", "token=", 'token"', '"name":"key" , ', "<token>a",
    ";pwd", "machine a ", "\nlogin a\n", "password is a", "eyJaaaa-", "_eyJaaaa", "SG.aaaaaaaa-",
    "A1b+/", "$6$aaaa", 'mysql -p"', "login -p ", "openssl -pass ", "password\\",
]  # fmt: skip
"""Over and over: beginnings of what may be a secret, and never its end."""


@pytest.mark.attack("model")
@pytest.mark.parametrize("shape", SHAPES)
def test_5_2_a_secret_is_known_by_where_it_stands(shape: str) -> None:
    said = scrub(shape.replace("{}", SECRET))
    assert SECRET not in said
    assert REDACTED in said
    assert scrub(said) == said


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.attack("model")
def test_5_2_a_key_that_comes_line_by_line_is_in_none_of_them() -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    for shown in (line, f"  {line}", f'"{line}\\n",', f"> {line}\r"):
        assert line not in scrub(shown)
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    assert scrub(digest) == digest


@pytest.mark.attack("model")
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_long_text_costs_no_more_than_its_length(unit: str) -> None:
    """A second or two; what is quadratic takes half a minute at the least."""
    text = (unit * (400_000 // len(unit))) + "="
    before = time.process_time()
    scrub(text, len(text))
    assert time.process_time() - before < 6


@pytest.mark.attack("model")
def test_of_a_long_text_no_more_is_read_than_is_kept() -> None:
    before = time.process_time()
    for _ in range(20):
        scrub("token=a " * 1_000_000)
    assert time.process_time() - before < 2
