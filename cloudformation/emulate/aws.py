"""The AWS CLI, with waiters that look again after a second: aws.py ARGUMENT..."""

import sys

import botocore.waiter
from awscli.clidriver import main

botocore.waiter.SingleWaiterConfig.delay = property(lambda config: 1, lambda config, seconds: None)
sys.exit(main())
