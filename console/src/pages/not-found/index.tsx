import { ButtonLink, EmptyState, Page } from '../../ui';
import { strings } from './strings';

export default function NotFound() {
  return (
    <Page title={strings.title} narrow>
      <EmptyState title={strings.title} action={<ButtonLink href="/">{strings.home}</ButtonLink>}>
        {strings.text}
      </EmptyState>
    </Page>
  );
}
