-- A MySQL and MariaDB schema with the traps of a catalog reader in it.
CREATE TABLE `Orders` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `Total` decimal(12,2) NOT NULL DEFAULT 0.00 COMMENT 'with tax; it''s all, "really"',
  `wide` decimal(60,10) DEFAULT NULL,
  `state` enum('sad','it''s ok','a,b) c') DEFAULT 'sad',
  `flags` set('x','y') NOT NULL DEFAULT 'x,y',
  `active` tinyint(1) NOT NULL DEFAULT 1,
  `tiny` tinyint(3) unsigned DEFAULT NULL,
  `padded` int(8) unsigned zerofill DEFAULT NULL,
  `code` char(5) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'a',
  `label` varchar(10) NOT NULL DEFAULT '',
  `bits` bit(8) DEFAULT b'101',
  `one` bit(1) DEFAULT NULL,
  `born` date NOT NULL DEFAULT '0000-00-00',
  `placed` datetime(6) DEFAULT NULL,
  `changed` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `took` time(3) DEFAULT NULL,
  `y` year(4) DEFAULT NULL,
  `ratio` double DEFAULT NULL,
  `share` float(7,4) DEFAULT NULL,
  `hash` binary(16) DEFAULT NULL,
  `raw` varbinary(20) DEFAULT '\0a\\b\n\r',
  `body` longtext DEFAULT NULL,
  `blobby` mediumblob DEFAULT NULL,
  `place` geometry DEFAULT NULL,
  `double_total` decimal(13,2) GENERATED ALWAYS AS (`Total` * 2) STORED,
  `first` varchar(1) GENERATED ALWAYS AS (left(`label`,1)) VIRTUAL,
  `select` int(11) DEFAULT 7,
  PRIMARY KEY (`id`),
  UNIQUE KEY `u` (`label`,`code`),
  KEY `k` (`placed`),
  CONSTRAINT `c` CHECK (`Total` >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='What was sold; it''s all here';

CREATE TABLE `pair` (
  `b` char(3) NOT NULL,
  `a` int(11) NOT NULL,
  `v` varchar(100) DEFAULT NULL,
  PRIMARY KEY (`B`,`a`)
) ENGINE=InnoDB
 PARTITION BY HASH (`a`) PARTITIONS 4;

CREATE TABLE `keyless` (
  `at` datetime DEFAULT NULL,
  `what` text DEFAULT NULL
) ENGINE=InnoDB;

CREATE VIEW `totals` AS SELECT count(0) AS `n` FROM `Orders`;
