#!/usr/bin/env bash
# Fetches schemas that nobody of this project wrote: those that programs in
# Debian's packages create, for PostgreSQL and for MySQL. Nothing is installed.
# Usage: packages.sh DIR, which then holds postgresql/NAME.sql and mysql/NAME.sql.
set -euo pipefail
mkdir -p "$1/postgresql" "$1/mysql" "$1/packages"
cd "$1/packages"
apt-get -o Acquire::Retries=5 update -q
apt-get -o Acquire::Retries=5 download -q zabbix-server-pgsql zabbix-server-mysql roundcube-core icinga2-ido-pgsql icinga2-ido-mysql icingadb \
	pdns-backend-pgsql pdns-backend-mysql kamailio-postgres-modules kamailio-mysql-modules mediawiki cacti
for package in *.deb; do
	dpkg-deb -x "$package" .
done
cd usr/share
zcat zabbix-server-pgsql/schema.sql.gz >"$1/postgresql/zabbix.sql"
zcat zabbix-server-mysql/schema.sql.gz >"$1/mysql/zabbix.sql"
cp roundcube/SQL/postgres.initial.sql "$1/postgresql/roundcube.sql"
cp roundcube/SQL/mysql.initial.sql "$1/mysql/roundcube.sql"
cp icinga2-ido-pgsql/schema/pgsql.sql "$1/postgresql/icinga2.sql"
cp icinga2-ido-mysql/schema/mysql.sql "$1/mysql/icinga2.sql"
cp icingadb/schema/pgsql/schema.sql "$1/postgresql/icingadb.sql"
cp icingadb/schema/mysql/schema.sql "$1/mysql/icingadb.sql"
cp pdns-backend-pgsql/schema/schema.pgsql.sql "$1/postgresql/pdns.sql"
cp pdns-backend-mysql/schema/schema.mysql.sql "$1/mysql/pdns.sql"
cp mediawiki/maintenance/postgres/tables-generated.sql "$1/postgresql/mediawiki.sql"
cp mediawiki/maintenance/tables-generated.sql "$1/mysql/mediawiki.sql"
# The ims modules create tables of other modules once more.
sed '/^INSERT/d' kamailio/postgres/[!i]*-create.sql >"$1/postgresql/kamailio.sql"
sed '/^INSERT/d' kamailio/mysql/[!i]*-create.sql >"$1/mysql/kamailio.sql"
cp cacti/conf_templates/cacti.sql "$1/mysql/cacti.sql"
rm -rf "$1/packages"
